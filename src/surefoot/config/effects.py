"""Keys that do nothing in the mode chosen by others: set by the user, they deserve a warning."""

from surefoot.config.keys import dotted
from surefoot.config.schema import DataConfig, LengthsConfig, RunConfig, Section, TrainDataConfig

SCALER_KEYS = ("growth_factor", "backoff_factor", "growth_interval", "hysteresis", "min_scale", "max_scale")


def find_warnings(config: RunConfig, given: set[str]) -> list[str]:
    """What the user set to no effect, and settings that are allowed but surprise. `given`: see `given_keys`."""
    why = no_effect(config)
    warnings = [f"{key} has no effect: {why[key]}" for key in sorted(given) if key in why]
    for index, data in enumerate(config.eval.sets):
        if data.temperature == 0 and data.samples > 1:
            warnings.append(f"eval.sets.{index}.samples: {data.samples} samples at temperature 0 are all the same")
    updates = config.loop.steps * config.train.updates_per_rollout * config.train.epochs
    if config.loop.steps and config.optim.warmup > updates:
        warnings.append(f"optim.warmup: the run ends after {updates} updates, before {config.optim.warmup} of warm-up")
    return warnings


def given_keys(config: RunConfig) -> set[str]:
    """The keys that were set, dotted, list items with their index ("eval.sets.0.task"); tables are not among them."""
    return {dotted(path) for path in _given(config, ())}


def no_effect(config: RunConfig) -> dict[str, str]:
    """Key -> why it does nothing here. Keys of list items carry their index."""
    why = _train_data_effects(config.data)
    for index, data in enumerate(config.eval.sets):
        why |= _data_effects(f"eval.sets.{index}", data)
    return why | _algorithm_effects(config) | _precision_effects(config) | _other_effects(config)


def _given(section: Section, prefix: tuple[str | int, ...]) -> set[tuple[str | int, ...]]:
    found: set[tuple[str | int, ...]] = set()
    for name in section.model_fields_set:
        value, path = section.__dict__[name], (*prefix, name)
        if isinstance(value, Section):
            found |= _given(value, path)
        elif isinstance(value, list) and value and isinstance(value[0], Section):
            for index, item in enumerate(value):
                found |= _given(item, (*path, index))
        else:
            found.add(path)
    return found


FILE_KEYS = ("path", "rows", "input_key", "label_key", "metadata_key", "id_key", "bad_rows")
GYM_KEYS = ("task", "size", "seed", "params")


def _data_effects(where: str, data: DataConfig) -> dict[str, str]:
    unused = (*FILE_KEYS, "split") if data.source == "reasoning_gym" else GYM_KEYS
    if data.source in ("jsonl", "parquet"):
        unused = (*unused, "split")
    return {f"{where}.{name}": f'{where}.source is "{data.source}"' for name in unused}


def _train_data_effects(data: TrainDataConfig) -> dict[str, str]:
    if not data.mix:
        return _data_effects("data", data)
    why: dict[str, str] = {}
    for index, source in enumerate(data.mix):
        why |= _data_effects(f"data.mix.{index}", source)
    return why | {f"data.{name}": "each [[data.mix]] has its own" for name in DataConfig.model_fields}


def _algorithm_effects(config: RunConfig) -> dict[str, str]:
    algo = config.algo
    why: dict[str, str] = {}
    if algo.estimator != "grpo":
        why["algo.std_eps"] = f'algo.estimator is "{algo.estimator}", which does not divide by the deviation'
    if algo.correction != "tis":
        why["algo.tis_cap"] = f'algo.correction is "{algo.correction}"'
    if algo.aggregation != "constant":
        why["algo.constant_length"] = f'algo.aggregation is "{algo.aggregation}"'
    if algo.kl_coef > 0:
        why["algo.kl_metric"] = "with algo.kl_coef > 0 the KL is reported anyway"
    elif not algo.kl_metric:
        unused = "algo.kl_coef is 0 and algo.kl_metric is off"
        why |= dict.fromkeys(("algo.kl_kind", "reference.path", "reference.update_interval"), unused)
    return why


def _precision_effects(config: RunConfig) -> dict[str, str]:
    precision, train = config.precision, config.train
    why: dict[str, str] = {}
    if precision.compute != "fp16":
        unused = f'precision.compute is "{precision.compute}"; only fp16 scales its loss'
        why |= {f"precision.{name}": unused for name in ("init_scale", "dynamic_scale", *SCALER_KEYS)}
        why |= dict.fromkeys(("train.on_overflow", "train.max_retries"), unused)
    elif not precision.dynamic_scale:
        unused = "precision.dynamic_scale is off"
        why |= {f"precision.{name}": unused for name in SCALER_KEYS}
        why |= dict.fromkeys(("train.on_overflow", "train.max_retries"), unused)
    elif train.on_overflow == "skip":
        why["train.max_retries"] = 'train.on_overflow is "skip"'
    return why


def _other_effects(config: RunConfig) -> dict[str, str]:
    why: dict[str, str] = {}
    if config.optim.schedule == "constant":
        why["optim.min_lr_ratio"] = 'optim.schedule is "constant"'
    if not config.eval.sets:
        why |= dict.fromkeys(("eval.every", "eval.before", "eval.after"), "there is no [[eval.sets]]")
    if config.observe.run_dir:
        why["loop.name"] = "observe.run_dir names the folder"
    if "wandb" not in config.observe.trackers:
        why |= dict.fromkeys(("observe.wandb_project", "observe.wandb_mode"), '"wandb" is not among observe.trackers')
    return why | _debug_effects(config)


def _debug_effects(config: RunConfig) -> dict[str, str]:
    debug, why = config.debug, dict[str, str]()
    unused = f'debug.mode is "{debug.mode}"'
    if debug.mode != "train_only":
        why["debug.rollouts"] = unused
    if debug.mode != "fake_data":
        why |= {f"debug.lengths.{i}.{n}": unused for i in range(len(debug.lengths)) for n in LengthsConfig.model_fields}
    return why
