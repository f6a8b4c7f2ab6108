"""The program that speaks to W&B, alone in its process: requests on stdin, an answer each on stdout, talk on stderr.

Only metrics and the configuration go to W&B: no code, no repository, no console, no command line, no machine.
It imports nothing of this package, so that it starts without reading it.
"""

import json
import os
from typing import Any, TextIO

INIT_SECONDS = 60
FINISH_SECONDS = 6  # for the upload of what is left; less than the run waits for its trackers


def main() -> None:
    requests, answers = take_pipes()
    try:
        serve(requests, answers)
    except BaseException as error:  # whatever it is, the run says it, and ends this program
        answer(answers, {"error": f"{type(error).__name__}: {error}"})
        raise


def take_pipes() -> tuple[TextIO, TextIO]:
    """The two pipes for this program alone: what W&B prints, and what its processes inherit, is stderr."""
    requests, answers = os.fdopen(os.dup(0), encoding="utf8"), os.fdopen(os.dup(1), "w", encoding="utf8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def serve(requests: TextIO, answers: TextIO) -> None:
    """Until the end is asked for; an end of the requests without it is a run that was killed."""
    run = begin(json.loads(requests.readline()))
    answer(answers, {})
    for line in requests:
        request = json.loads(line)
        if "end" in request:
            run.finish()
            answer(answers, {})
            return
        # The step is a value like others: W&B's own never goes back, and after a resume it must.
        run.log({"step": request["step"], **request["metrics"]})
        answer(answers, {})
    run.finish(exit_code=1)


def begin(request: dict[str, Any]) -> Any:
    if request["mode"] == "offline":
        os.environ["WANDB_ERROR_REPORTING"] = "false"  # reports of W&B's own errors would use the network
    import wandb

    run = wandb.init(
        **request,
        resume="allow",
        allow_val_change=True,  # a resume may change the configuration
        settings=wandb.Settings(
            console="off",
            host="",
            init_timeout=INIT_SECONDS,
            finish_timeout=FINISH_SECONDS,
            finish_timeout_raises=True,
            disable_code=True,
            disable_git=True,
            disable_job_creation=True,
            x_disable_meta=True,
            x_disable_machine_info=True,
            x_disable_stats=True,
            x_save_requirements=False,
        ),
    )
    run.define_metric("step")
    run.define_metric("*", step_metric="step")
    return run


def answer(answers: TextIO, content: dict[str, str]) -> None:
    answers.write(json.dumps(content) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
