"""The run file as typed sections. One line a key: its default, its unit, what it does.

Frozen and strict: nothing rewrites a value, "1e-5" in quotes is not a number, an unknown key is an error.
Each part of the program is given its own section, never the whole.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0)]
Natural = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
LogRatio = Annotated[float, Field(gt=0, le=80)]  # exp of more overflows fp32
NaturalFloat = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ModelConfig(Section):
    path: str  # Hugging Face model folder, relative to where the command runs
    device: Literal["auto", "cpu", "cuda"] = "auto"  # auto: cuda where there is one


class ReferenceConfig(Section):
    """Loaded only where `algo.kl_coef` > 0 or `algo.kl_metric` asks for it."""

    path: str = ""  # "" = the policy as the run starts, whatever `model.path` holds later
    update_interval: Natural = 0  # updates between refreshes from the policy; 0 = frozen


class DataConfig(Section):
    source: Literal["jsonl", "parquet", "datasets", "reasoning_gym"] = "jsonl"
    path: str = ""  # jsonl, parquet: the file; datasets: a Hugging Face data set's folder
    split: str = ""  # datasets: the split, e.g. "train"; "" = the only one
    rows: str = ""  # of the file, as Python slices: ":1000", "1000:", "::2"; "" = all
    input_key: str = "prompt"  # text, or a list of {role, content}; "a.b" reaches into an object
    label_key: str = "label"  # the right answer, handed to the reward as it is; "" = none
    metadata_key: str = ""  # an object handed to the reward; "" = none
    id_key: str = "id"  # names a row in ledger and rollouts; a row without it is <file>:<line>. "" = all are
    bad_rows: Literal["refuse", "skip"] = "refuse"  # skip: bad rows are counted and reported, the rest is used
    task: str = ""  # reasoning_gym: the generator's name, e.g. "products"
    size: Natural = 0  # reasoning_gym: rows to generate
    seed: Natural = 0  # reasoning_gym: of the generator
    params: dict[str, Any] = {}  # reasoning_gym: the generator's own options, e.g. {min_digits = 1}
    system: str = ""  # a system message put before every prompt
    template: str = "{prompt}"  # wraps the row's text, e.g. "{prompt}\nAnswer with a number."


class MixConfig(DataConfig):
    """One of several sources; each is complete in itself, nothing is taken over from [data]."""

    weight: NaturalFloat = 0.0  # its share of the draws beside the others'; 0 for all = as many as they have rows


class TrainDataConfig(DataConfig):
    mix: list[MixConfig] = []  # several sources instead of the one above
    chat_template: bool = False  # apply the tokenizer's chat template; off: the bare text is encoded
    shuffle: bool = True  # a new seeded order every epoch
    epochs: Natural = 0  # stop when every row was drawn this often; 0 = as `loop.steps` says


class RewardConfig(Section):
    name: str = ""  # a built-in: "exact_match", "math", "reasoning_gym", ... (docs/rewards.md)
    function: str = ""  # or a user's: "package.module.function"
    part: str = ""  # what it is called in metrics and rollouts; "" = its name or function
    weight: float = 1.0
    params: dict[str, Any] = {}  # handed to it as keyword arguments
    timeout: NaturalFloat = 0.0  # seconds one call may take; 0 = env.timeout


class EnvConfig(Section):
    rewards: list[RewardConfig] = []  # the reward is the weighted sum of these
    timeout: PositiveFloat = 30.0  # seconds a reward may take for one answer
    workers: Natural = 0  # processes that compute rewards, a rank; 0 = cores, at least 4


class RolloutConfig(Section):
    engine: Literal["inprocess"] = "inprocess"
    prompts_per_step: Positive = 8
    group_size: Positive = 8  # rollouts a prompt
    temperature: PositiveFloat = 1.0
    max_new_tokens: Positive = 128
    max_prompt_tokens: Positive = 1024  # a longer prompt is dropped with a reason
    stop: list[str] = []  # stop strings; the text up to and including one is trained on
    max_slots: Positive = 128  # rollouts decoded at once


class AlgoConfig(Section):
    estimator: Literal["grpo", "dr_grpo", "rloo"] = "grpo"
    std_eps: PositiveFloat = 1e-6  # grpo: added to the group's standard deviation
    clip_low: PositiveFloat = 0.2  # ratio's lower bound is 1 - clip_low
    clip_high: PositiveFloat = 0.2  # ratio's upper bound is 1 + clip_high (clip-higher: 0.28)
    correction: Literal["none", "tis"] = "tis"  # of the sampler/trainer mismatch, exp(old - mu)
    tis_cap: PositiveFloat = 2.0
    kl_kind: Literal["k1", "k2", "k3", "low_var_kl"] = "k3"
    kl_coef: NaturalFloat = 0.0  # 0: the term does not enter the graph
    kl_metric: bool = False  # report the KL to the reference though its coefficient is 0
    aggregation: Literal["token_mean", "sample_mean", "constant"] = "token_mean"
    constant_length: Natural = 0  # constant: divisor per rollout; 0 = rollout.max_new_tokens
    log_ratio_bound: LogRatio = 20.0  # log-ratios are bounded to +- this before exp, and counted


class TrainConfig(Section):
    updates_per_rollout: Positive = 1  # mini-batches a rollout batch is cut into, one update each
    epochs: Positive = 1  # passes over a rollout batch
    max_tokens: Positive = 4096  # a micro-batch's token budget
    logprob_chunk: Positive = 1024  # tokens whose logits exist at once
    max_grad_norm: NaturalFloat = 1.0  # 0 = no clipping
    on_overflow: Literal["retry", "skip"] = "retry"
    max_retries: Natural = 24  # of one batch, each at a lower loss scale
    on_nonfinite: Literal["skip", "drop_samples", "halt"] = "skip"  # drop_samples: train on without those behind it
    on_zero_signal: Literal["skip", "apply"] = "skip"  # every advantage 0 and no other term
    max_consecutive_skips: Positive = 8  # more halt the run; overflows and zero signal do not count
    gradient_hooks: list[str] = []  # "package.module.function", shown the unscaled gradients; may refuse the step
    collective_timeout: PositiveFloat = 600.0  # seconds a rank waits for the others
    gradient_checkpointing: bool = False


class OptimConfig(Section):
    name: Literal["adamw"] = "adamw"
    lr: PositiveFloat = 1e-6
    beta1: Share = 0.9
    beta2: Share = 0.95
    eps: PositiveFloat = 1e-8
    weight_decay: NaturalFloat = 0.0
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup: Natural = 0  # updates from 0 up to lr
    min_lr_ratio: Share = 0.0  # where linear and cosine end


class PrecisionConfig(Section):
    compute: Literal["fp32", "bf16", "fp16", "fp64"] = "fp32"  # fp64 is for reference runs
    init_scale: PositiveFloat = 65536.0  # the rest is for fp16's loss scaler
    dynamic_scale: bool = True
    growth_factor: PositiveFloat = 2.0
    backoff_factor: PositiveFloat = 0.5
    growth_interval: Positive = 1000
    hysteresis: Positive = 1
    min_scale: PositiveFloat = 1.0
    max_scale: PositiveFloat = 16777216.0


class LoopConfig(Section):
    name: str = "run"
    steps: Natural = 0  # rollout batches; 0 = until `data.epochs` are drawn
    seed: Natural = 0  # every stage's random numbers derive from it
    threads: Natural = 0  # torch CPU threads a rank; 0 = cores / ranks. Bit-exact repeats need a fixed number


class CheckpointConfig(Section):
    every: Natural = 0  # steps; 0 = at the end only
    keep_last: Positive = 2
    keep_every: Natural = 0  # steps; checkpoints at their multiples are kept for good. 0 = none are


class EvalSetConfig(DataConfig):
    name: str  # of the metrics: eval/<name>/accuracy
    samples: Positive = 1  # rollouts a prompt; pass@k is reported for k up to this
    temperature: NaturalFloat = 1.0  # 0 = greedy
    max_new_tokens: Natural = 0  # 0 = rollout.max_new_tokens
    max_prompt_tokens: Natural = 0  # 0 = rollout.max_prompt_tokens
    stop: list[str] = []  # [] = rollout.stop
    rewards: list[RewardConfig] = []  # [] = env.rewards


class EvalConfig(Section):
    every: Natural = 0  # steps; 0 = only as `before` and `after` say
    before: bool = True
    after: bool = True
    sets: list[EvalSetConfig] = []


class ObserveConfig(Section):
    run_dir: str = ""  # "" = runs/<loop.name>-<time>
    save_rollouts: bool = True
    show_samples: Natural = 1  # rollouts printed a step
    trackers: list[Literal["tensorboard", "wandb"]] = []  # metrics go there too; a tracker that fails stops nothing
    wandb_project: str = "surefoot"
    wandb_mode: Literal["online", "offline"] = "online"  # offline: kept in the run's logs/, for `wandb sync`


class LengthsConfig(Section):
    prompt: Positive  # tokens
    completion: Positive  # tokens
    weight: PositiveFloat = 1.0  # how often, beside the others


class DebugConfig(Section):
    mode: Literal["off", "rollout_only", "train_only", "fake_data"] = "off"
    rollouts: str = ""  # train_only: a run's rollouts/ folder; its steps are trained on again
    lengths: list[LengthsConfig] = []  # fake_data: rollouts of random tokens in this mix of lengths
    shuffle_rewards: bool = False  # a control: rewards trade places within the batch, so nothing should be learnt


class RunConfig(Section):
    model: ModelConfig
    reference: ReferenceConfig = ReferenceConfig()
    data: TrainDataConfig
    env: EnvConfig
    rollout: RolloutConfig = RolloutConfig()
    algo: AlgoConfig = AlgoConfig()
    train: TrainConfig = TrainConfig()
    optim: OptimConfig = OptimConfig()
    precision: PrecisionConfig = PrecisionConfig()
    loop: LoopConfig = LoopConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    eval: EvalConfig = EvalConfig()
    observe: ObserveConfig = ObserveConfig()
    debug: DebugConfig = DebugConfig()
