import keras
import numpy as np
import pytest
from pydantic import ValidationError

from keras_vit.model import ViTConfig, build_vit
from keras_vit.optim import (
    ClassificationLoss,
    OptimConfig,
    WarmupSchedule,
    class_weights,
    decays,
    make_optimizer,
)

TINY = ViTConfig(
    image_size=8,
    patch_size=4,
    num_channels=1,
    hidden_dim=16,
    num_layers=1,
    num_heads=2,
    mlp_dim=16,
    num_classes=3,
    num_register_tokens=1,
    pooling="map",
    layer_scale_init_value=0.1,
)


def rates(schedule, steps):
    return [float(schedule(step)) for step in steps]


def test_warmup_then_cosine_gives_the_published_rates():
    schedule = WarmupSchedule(1e-3, total_steps=100, warmup_steps=10)
    expected = [0, 5e-4, 1e-3, 5e-4, 0]
    np.testing.assert_allclose(rates(schedule, (0, 5, 10, 55, 100)), expected, atol=1e-9)


def test_linear_falls_to_the_final_rate_and_stays_there():
    schedule = WarmupSchedule(1.0, total_steps=10, shape="linear", final=0.2)
    np.testing.assert_allclose(rates(schedule, (0, 5, 10, 20)), [1.0, 0.6, 0.2, 0.2], atol=1e-6)


def test_constant_stays_at_the_peak_after_the_warmup():
    schedule = WarmupSchedule(0.5, total_steps=10, warmup_steps=2, shape="constant", final=0.1)
    np.testing.assert_allclose(rates(schedule, (1, 2, 9, 30)), [0.25, 0.5, 0.5, 0.5])


def test_schedule_comes_back_from_its_config():
    schedule = WarmupSchedule(1e-3, 100, 10, "linear", 1e-5)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(schedule))
    assert again.get_config() == schedule.get_config()


def test_unknown_schedule_shape_is_refused():
    with pytest.raises(ValueError, match="got 'square'"):
        WarmupSchedule(1.0, 10, shape="square")


def numpy_cross_entropy(targets, logits):
    logits = logits.astype("float64")
    peak = logits.max(-1, keepdims=True)
    log_sum = peak + np.log(np.exp(logits - peak).sum(-1, keepdims=True))
    return (targets * (log_sum - logits)).sum(-1)


def test_label_smoothing_works_with_whole_number_labels():
    logits, labels = np.array([[2.0, 0.0, 0.0]]), np.array([0])
    assert float(ClassificationLoss()(labels, logits)) == pytest.approx(0.239545, abs=1e-6)
    assert float(ClassificationLoss(0.1)(labels, logits)) == pytest.approx(0.372878, abs=1e-6)


def test_whole_number_and_soft_labels_give_the_same_loss():
    logits = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    labels = np.array([0, 3, 1, 2, 0, 3])
    loss = ClassificationLoss(0.2, class_weights=(1.0, 2.0, 0.5, 3.0))
    whole, soft = loss(labels, logits), loss(np.eye(4, dtype="float32")[labels], logits)
    assert float(whole) == pytest.approx(float(soft), rel=1e-6)


def test_class_weights_multiply_each_loss_and_the_mean_is_over_the_batch():
    logits = np.random.default_rng(1).normal(size=(5, 3)).astype("float32")
    labels, factors = np.array([0, 1, 2, 1, 0]), np.array([5.0, 0.5, 1.0])
    expected = (numpy_cross_entropy(np.eye(3)[labels], logits) * factors[labels]).mean()
    loss = ClassificationLoss(class_weights=tuple(factors))
    assert float(loss(labels, logits)) == pytest.approx(expected, rel=1e-6)


def test_soft_labels_take_the_mixture_of_their_classes_weights():
    logits, mixed = np.array([[1.0, 0.0]], "float32"), np.array([[0.3, 0.7]], "float32")
    expected = numpy_cross_entropy(mixed, logits)[0] * (0.3 * 2 + 0.7 * 4)
    loss = ClassificationLoss(class_weights=(2.0, 4.0))
    assert float(loss(mixed, logits)) == pytest.approx(expected, rel=1e-6)


def test_large_class_numbers_survive_half_precision_logits():
    logits = keras.ops.cast(np.eye(1000)[[257, 999]] * 50, "bfloat16")
    assert float(ClassificationLoss()(np.array([257, 999]), logits)) < 1e-3


def test_sigmoid_loss_equals_its_definition_and_stays_finite():
    logits = np.array([[2.0, -1.0, 300.0], [-300.0, 0.5, 0.0]], "float32")
    labels = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]], "float32")
    positive, negative = np.logaddexp(0, -logits), np.logaddexp(0, logits)
    expected = (labels * positive + (1 - labels) * negative).sum(-1).mean()
    assert float(ClassificationLoss(multi_label=True)(labels, logits)) == pytest.approx(expected)


def test_sigmoid_loss_weights_a_class_where_it_is_present():
    logits, labels = np.array([[1.0, -2.0]], "float32"), np.array([[1.0, 0.0]], "float32")
    expected = 3.0 * np.logaddexp(0, -1.0) + np.logaddexp(0, -2.0)
    loss = ClassificationLoss(multi_label=True, class_weights=(3.0, 7.0))
    assert float(loss(labels, logits)) == pytest.approx(expected, rel=1e-6)


def test_loss_comes_back_from_its_config():
    loss = ClassificationLoss(0.1, (1.0, 2.0), multi_label=True)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert again.get_config() == loss.get_config()


def test_balanced_class_weights_follow_the_counts():
    labels = np.array([0] * 5 + [1] * 45)
    weights = class_weights("balanced", ("few", "many"), labels)
    np.testing.assert_allclose(weights, [5.0, 0.555556], atol=1e-6)


def test_a_class_left_out_of_the_weights_counts_one():
    assert class_weights({"b": 3}, ("a", "b"), np.array([0, 1])) == (1.0, 3.0)


def test_weights_for_an_unknown_class_are_refused_by_name():
    with pytest.raises(ValueError, match=r"names 'dog'; the classes are \['cat'\]"):
        class_weights({"dog": 2.0}, ("cat",), np.array([0]))


def test_balancing_a_class_without_pictures_is_refused_by_name():
    with pytest.raises(ValueError, match="class 'b' has no picture"):
        class_weights("balanced", ("a", "b"), np.array([0, 0]))


def test_only_kernels_decay():
    model = build_vit(TINY)
    kept = {variable.path for variable in model.trainable_variables if not decays(variable)}
    parts = ("bias", "gamma", "beta", "token", "position_embedding", "layer_scale", "probe")
    assert all(any(part in path for part in parts) for path in kept)
    assert not any("kernel" in path for path in kept)
    assert "patch_encoder/class_token" in kept and "patch_encoder/position_embedding" in kept


@pytest.mark.parametrize("name", ["adamw", "sgd", "muon"])
def test_weight_decay_alone_shrinks_kernels_by_rate_times_decay(name):
    model = build_vit(TINY)
    for variable in model.trainable_variables:
        variable.assign(keras.ops.ones_like(variable))
    config = OptimConfig(optimizer=name, learning_rate=0.1, schedule="constant", weight_decay=0.5)
    optimizer = make_optimizer(config, model, steps_per_epoch=1, epochs=1)
    variables = model.trainable_variables
    optimizer.apply([keras.ops.zeros_like(v) for v in variables], variables)
    for variable in variables:
        expected = 1 - 0.1 * 0.5 if decays(variable) else 1.0
        np.testing.assert_allclose(variable.numpy(), expected, atol=1e-6, err_msg=variable.path)


def test_adamw_step_equals_the_paper():
    model = build_vit(TINY)
    config = OptimConfig(learning_rate=0.01, schedule="constant", weight_decay=0.1)
    optimizer = make_optimizer(config, model, 1, 1)
    variables = model.trainable_variables
    before = [v.numpy().astype("float64") for v in variables]
    rng = np.random.default_rng(0)
    gradients = [rng.choice((-1.0, 0.5, 2.0), size=v.shape) for v in variables]
    optimizer.apply([keras.ops.convert_to_tensor(g, "float32") for g in gradients], variables)
    for variable, old, gradient in zip(variables, before, gradients, strict=True):
        # the first step's corrected moments are the gradient and its square
        new = old - 0.01 * (0.1 * old * decays(variable) + gradient / (np.abs(gradient) + 1e-8))
        np.testing.assert_allclose(variable.numpy(), new, atol=2e-6, err_msg=variable.path)


def test_clipping_is_by_the_norm_of_all_gradients_together():
    model = build_vit(TINY)
    config = OptimConfig(
        optimizer="sgd", momentum=0.0, learning_rate=1.0, schedule="constant", clip_norm=2.0
    )
    optimizer = make_optimizer(config, model, 1, 1)
    variables = model.trainable_variables
    before = [v.numpy() for v in variables]
    optimizer.apply([keras.ops.ones_like(v) for v in variables], variables)
    moved = sum(np.square(v.numpy() - old).sum() for v, old in zip(variables, before, strict=True))
    assert np.sqrt(moved) == pytest.approx(2.0, rel=1e-4)


def test_muon_leaves_tokens_positions_and_the_head_to_adam():
    model = build_vit(TINY)
    optimizer = make_optimizer(OptimConfig(optimizer="muon"), model, 1, 1)
    by_muon = {v.path for v in model.trainable_variables if not optimizer._should_use_adamw(v)}
    assert by_muon and all(path.endswith("/kernel") for path in by_muon)
    assert not any(path.startswith("predictions") for path in by_muon)


def test_the_average_of_the_weights_follows_the_decay():
    model = build_vit(TINY)
    config = OptimConfig(
        optimizer="sgd", momentum=0.0, learning_rate=1.0, schedule="constant", ema_decay=0.75
    )
    optimizer = make_optimizer(config, model, 1, 1)
    variables = model.trainable_variables
    values = []
    for _ in range(4):
        optimizer.apply([keras.ops.ones_like(v) for v in variables], variables)
        values.append(variables[0].numpy().copy())
    average = values[0]
    for value in values[1:]:
        average = 0.75 * average + 0.25 * value
    optimizer.finalize_variable_values(variables)
    np.testing.assert_allclose(variables[0].numpy(), average, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": 0}, "learning_rate"),
        ({"learning_rate": -1e-3}, "learning_rate"),
        ({"learning_rate": "1e-4x"}, "1e-4x"),
        (
            {"optimizer": "adam", "weight_decay": 0.1},
            "weight_decay 0.1 needs .* got optimizer 'adam'",
        ),
        ({"momentum": 0.8}, "momentum 0.8 is for 'sgd' and 'muon'; got optimizer 'adamw'"),
        ({"final_learning_rate": 1.0}, "final_learning_rate 1.0 is above learning_rate 0.001"),
        ({"lerning_rate": 1.0}, "lerning_rate"),
    ],
)
def test_bad_settings_are_refused_by_name(settings, message):
    with pytest.raises(ValidationError, match=message):
        OptimConfig(**settings)
