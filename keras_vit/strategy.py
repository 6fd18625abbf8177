"""Where and in which precision a run computes: tf.distribute strategy, policy, XLA."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class StrategyConfig(BaseModel):
    """Devices, precision and compilation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # auto: every GPU there is, mirrored; one device otherwise
    name: Literal["auto", "one_device", "mirrored"] = "auto"
    # auto: mixed_bfloat16 on GPUs that have it (compute capability 8 and up), else float32
    precision: Literal["auto", "float32", "mixed_bfloat16", "mixed_float16"] = "auto"
    # XLA; auto: on for one GPU, or a CPU with AVX-512, where it was measured to be faster
    jit_compile: Literal["auto"] | bool = "auto"
    # steps between two looks at the loss; must divide the steps of an epoch
    steps_per_execution: Annotated[int, Field(strict=True, ge=1)] = 1


class Placement(BaseModel):
    """What was chosen, and why in one line."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    strategy: object  # a tf.distribute.Strategy
    precision: str  # the name of a Keras dtype policy
    jit_compile: bool
    reason: str


def choose(config):
    """Chooses strategy, precision and XLA for this machine.

    Args:
        config: A `StrategyConfig`.

    Returns:
        A `Placement`; nothing global is changed.

    Raises:
        ValueError: "mirrored" is asked for on a machine without GPUs.
    """
    import tensorflow as tf

    gpus = tf.config.list_logical_devices("GPU")
    if config.name == "mirrored" and not gpus:
        raise ValueError("strategy.name 'mirrored' needs GPUs; found none. Use 'one_device'")
    mirrored = config.name == "mirrored" or (config.name == "auto" and len(gpus) > 1)
    if mirrored:
        strategy = tf.distribute.MirroredStrategy()
    else:
        strategy = tf.distribute.OneDeviceStrategy("/gpu:0" if gpus else "/cpu:0")
    precision = config.precision
    if precision == "auto":
        precision = "mixed_bfloat16" if _has_bfloat16(tf) else "float32"
    jit_compile = config.jit_compile
    if jit_compile == "auto":
        jit_compile = not mirrored and (bool(gpus) or _has_avx512())
    devices = f"{strategy.num_replicas_in_sync} {'GPU' if gpus else 'CPU'}"
    reason = f"{devices}, {precision}, XLA {'on' if jit_compile else 'off'}"
    return Placement(strategy=strategy, precision=precision, jit_compile=jit_compile, reason=reason)


def _has_bfloat16(tf):
    gpus = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    return bool(gpus) and all(
        detail.get("compute_capability", (0, 0)) >= (8, 0) for detail in details
    )


def _has_avx512():
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="ignore") as file:
            return "avx512f" in file.read()
    except OSError:
        return False


def check_steps(config, steps_per_epoch):
    """The steps in one execution, which must divide the steps of an epoch.

    An endless data set would otherwise be read past the epoch's end.

    Raises:
        ValueError: They do not divide.
    """
    if steps_per_epoch % config.steps_per_execution:
        raise ValueError(
            f"strategy.steps_per_execution {config.steps_per_execution} does not divide the "
            f"{steps_per_epoch} steps of an epoch"
        )
    return config.steps_per_execution
