"""How a model learns: optimizers, learning-rate schedules, which weights decay, and losses."""

import math
from typing import Annotated, Literal

import keras
from keras import ops
from pydantic import BaseModel, ConfigDict, Field, model_validator

# Two-dimensional weights that are rows of tokens or class scores, no maps between feature spaces:
# Muon's orthogonal updates do not suit them (Jordan et al. 2024).
NOT_FOR_MUON = ("predictions", "class_token", "register_tokens", "probe")

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Decay = Annotated[float, Field(ge=0, lt=1)]


class OptimConfig(BaseModel):
    """The optimizer and its schedule."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    optimizer: Literal["adamw", "adam", "sgd", "muon"] = "adamw"
    learning_rate: Positive = 1e-3  # the peak, reached after the warm-up
    schedule: Literal["cosine", "linear", "constant"] = "cosine"  # after the warm-up
    warmup_epochs: NotNegative = 0.0  # rising linearly from 0; parts of an epoch are allowed
    final_learning_rate: NotNegative = 0.0  # at the end of the last epoch
    # Decoupled (Loshchilov and Hutter 2019): each step takes learning rate * weight_decay of a
    # kernel away; biases, norms, class token, registers and positions never decay.
    weight_decay: NotNegative = 0.0
    momentum: Decay | None = None  # sgd (0.9 if not given) and muon (0.95)
    beta_1: Decay = 0.9  # adamw, adam, and muon's Adam part
    beta_2: Decay = 0.999
    epsilon: Positive = 1e-8
    clip_norm: Positive | None = None  # largest norm of all gradients together
    ema_decay: Decay | None = None  # average of the weights over steps, used to evaluate and kept

    @model_validator(mode="after")
    def _fields_go_together(self):
        if self.optimizer == "adam" and self.weight_decay:
            raise ValueError(
                f"weight_decay {self.weight_decay} needs an optimizer with decoupled decay, "
                "such as 'adamw'; got optimizer 'adam'"
            )
        if self.momentum is not None and self.optimizer not in ("sgd", "muon"):
            raise ValueError(
                f"momentum {self.momentum} is for 'sgd' and 'muon'; got optimizer "
                f"{self.optimizer!r}"
            )
        if self.final_learning_rate > self.learning_rate:
            raise ValueError(
                f"final_learning_rate {self.final_learning_rate} is above learning_rate "
                f"{self.learning_rate}"
            )
        return self


@keras.saving.register_keras_serializable(package="keras_vit")
class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly from 0 to the peak, then falls by `shape` to the final rate.

    Args:
        peak: The highest rate, reached at `warmup_steps`.
        total_steps: Where `final` is reached; it stays there.
        warmup_steps: Steps of the rise; 0 starts at the peak.
        shape: "cosine", "linear" or "constant".
        final: The last rate; not used by "constant".

    Raises:
        ValueError: `shape` is none of the three.
    """

    def __init__(self, peak, total_steps, warmup_steps=0, shape="cosine", final=0.0):
        if shape not in ("cosine", "linear", "constant"):
            raise ValueError(f"shape must be cosine, linear or constant; got {shape!r}")
        self.peak = peak
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps
        self.shape = shape
        self.final = final

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rising = self.peak * step / max(self.warmup_steps, 1)
        done = (step - self.warmup_steps) / max(self.total_steps - self.warmup_steps, 1)
        done = ops.clip(done, 0.0, 1.0)
        falling = {
            "cosine": 0.5 + 0.5 * ops.cos(math.pi * done),
            "linear": 1.0 - done,
            "constant": ops.ones_like(done),
        }[self.shape]
        final = self.peak if self.shape == "constant" else self.final
        return ops.where(step < self.warmup_steps, rising, final + (self.peak - final) * falling)

    def get_config(self):
        return {
            "peak": self.peak,
            "total_steps": self.total_steps,
            "warmup_steps": self.warmup_steps,
            "shape": self.shape,
            "final": self.final,
        }


@keras.saving.register_keras_serializable(package="keras_vit")
class ClassificationLoss(keras.losses.Loss):
    """Cross-entropy of logits with whole-number or soft labels; sigmoids for several labels.

    The mean is over the batch (divided by the number of pictures, not by the sum of weights).

    Args:
        label_smoothing: Share of each label spread evenly over the classes (Szegedy et al. 2016,
            section 7); for sigmoids towards 0.5. In [0, 1).
        class_weights: One factor for each class; a soft label takes the mixture of its classes'
            factors, a sigmoid its class's where the label is there. None means 1.
        multi_label: Independent sigmoids, summed over the classes, in place of a softmax.

    Call arguments:
        y_true: `(B,)` class numbers, or `(B, K)` shares that sum to 1 (0 and 1 for sigmoids).
        y_pred: `(B, K)` logits; computed in float32.
    """

    def __init__(
        self,
        label_smoothing=0.0,
        class_weights=None,
        multi_label=False,
        name="classification_loss",
        reduction="sum_over_batch_size",
        dtype=None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.label_smoothing = label_smoothing
        self.class_weights = None if class_weights is None else tuple(class_weights)
        self.multi_label = multi_label

    def call(self, y_true, y_pred):
        y_pred = ops.cast(y_pred, "float32")
        num_classes = y_pred.shape[-1]
        if len(y_true.shape) < 2 or y_true.shape[-1] != num_classes:
            y_true = ops.one_hot(ops.reshape(ops.cast(y_true, "int32"), (-1,)), num_classes)
        y_true = ops.cast(y_true, "float32")
        factors = ops.ones(num_classes) if self.class_weights is None else self.class_weights
        factors = ops.convert_to_tensor(factors, "float32")
        loss = self._sigmoid_loss if self.multi_label else self._softmax_loss
        return loss(y_true, y_pred, factors)

    def _softmax_loss(self, y_true, y_pred, factors):
        weights = ops.sum(y_true * factors, axis=-1)
        y_true = y_true * (1.0 - self.label_smoothing) + self.label_smoothing / y_pred.shape[-1]
        return -ops.sum(y_true * ops.log_softmax(y_pred), axis=-1) * weights

    def _sigmoid_loss(self, y_true, y_pred, factors):
        weights = 1.0 + y_true * (factors - 1.0)  # where the label is there
        y_true = y_true * (1.0 - self.label_smoothing) + 0.5 * self.label_smoothing
        # relu(x) - x y + log(1 + exp(-|x|)) is finite at both ends
        losses = ops.relu(y_pred) - y_pred * y_true + ops.softplus(-ops.abs(y_pred))
        return ops.sum(losses * weights, axis=-1)

    def get_config(self):
        config = {
            "label_smoothing": self.label_smoothing,
            "class_weights": self.class_weights,
            "multi_label": self.multi_label,
        }
        return {**super().get_config(), **config}


def class_weights(setting, class_names, labels):
    """One factor for each class.

    Args:
        setting: None, "balanced" (`n / (K * count)`, scikit-learn's rule), or a mapping from
            class name to factor, in which a class left out counts 1.
        class_names: The classes in order.
        labels: `(n,)` class numbers of the training split.

    Returns:
        A tuple of K floats, or None.

    Raises:
        ValueError: A name is no class, or a class to balance has no picture.
    """
    if setting is None:
        return None
    if setting == "balanced":
        counts = [int((labels == index).sum()) for index in range(len(class_names))]
        if 0 in counts:
            raise ValueError(
                f"class_weights 'balanced': class {class_names[counts.index(0)]!r} has no picture"
            )
        return tuple(len(labels) / (len(counts) * count) for count in counts)
    unknown = sorted(set(setting) - set(class_names))
    if unknown:
        raise ValueError(f"class_weights names {unknown[0]!r}; the classes are {list(class_names)}")
    return tuple(float(setting.get(name, 1.0)) for name in class_names)


def make_optimizer(config, model, steps_per_epoch, epochs):
    """Makes the optimizer of `config` for a model, decay mask included.

    The mask is not part of a saved optimizer: make it anew for a model that is loaded.

    Args:
        config: An `OptimConfig`.
        model: Whose weights will be trained.
        steps_per_epoch: Steps of one epoch, for the schedule.
        epochs: Length of the schedule.
    """
    schedule = WarmupSchedule(
        config.learning_rate,
        total_steps=steps_per_epoch * epochs,
        warmup_steps=round(config.warmup_epochs * steps_per_epoch),
        shape=config.schedule,
        final=config.final_learning_rate,
    )
    shared = {
        "learning_rate": schedule,
        "global_clipnorm": config.clip_norm,
        "use_ema": config.ema_decay is not None,
        "ema_momentum": 0.99 if config.ema_decay is None else config.ema_decay,
        "weight_decay": config.weight_decay or None,
    }
    optimizer = _MAKERS[config.optimizer](config, shared)
    kept = [variable for variable in model.trainable_variables if not decays(variable)]
    optimizer.exclude_from_weight_decay(var_list=kept)
    return optimizer


def _make_adam(config, shared):
    kind = keras.optimizers.AdamW if config.weight_decay else keras.optimizers.Adam
    return kind(beta_1=config.beta_1, beta_2=config.beta_2, epsilon=config.epsilon, **shared)


def _make_sgd(config, shared):
    momentum = 0.9 if config.momentum is None else config.momentum
    return keras.optimizers.SGD(momentum=momentum, **shared)


def _make_muon(config, shared):
    return keras.optimizers.Muon(
        momentum=0.95 if config.momentum is None else config.momentum,
        adam_beta_1=config.beta_1,
        adam_beta_2=config.beta_2,
        adam_weight_decay=config.weight_decay or None,
        epsilon=config.epsilon,
        exclude_layers=list(NOT_FOR_MUON),
        **shared,
    )


_MAKERS = {"adamw": _make_adam, "adam": _make_adam, "sgd": _make_sgd, "muon": _make_muon}


def decays(variable):
    """Whether weight decay applies: to kernels only."""
    return variable.path.endswith("/kernel")
