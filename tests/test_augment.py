"""Augmentation: what each change does, and that it depends on (seed, epoch, index) alone."""

import hashlib
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from pydantic import ValidationError
from scipy import ndimage

from keras_vit.augment import (
    AugmentConfig,
    augment_batch,
    augment_image,
    draw_key,
    random_box,
)

EVERYTHING = AugmentConfig(horizontal_flip=True, rotate=0.3, zoom=(0.8, 1.2), shift=1.5, cutout=0.3)


def make_pictures(count=6, height=8, width=8, channels=3):
    return np.random.default_rng(0).uniform(0, 255, (count, height, width, channels)).astype("f4")


def keys_of(count, seed=1, epoch=0):
    return draw_key(seed, epoch, tf.range(count, dtype=tf.int64))


def test_everything_is_off_by_default():
    pictures = make_pictures()
    changed = augment_batch(tf.constant(pictures), AugmentConfig(), keys_of(6))
    np.testing.assert_array_equal(changed, pictures)


@pytest.mark.parametrize(
    ("field", "value", "parts"),
    [
        ("random_resized_crop", (0.5, 0.2), ["random_resized_crop", "(0.5, 0.2)"]),
        ("random_resized_crop", (0.5, 1.2), ["random_resized_crop", "<= 1", "(0.5, 1.2)"]),
        ("aspect_ratio", (0.0, 1.0), ["aspect_ratio", "(0, 1)"]),
        ("zoom", (1.2, 0.8), ["zoom", "(1.2, 0.8)"]),
        ("rotate", 4.0, ["rotate", "4.0"]),
        ("shift", -1.0, ["shift", "-1.0"]),
        ("cutout", 1.5, ["cutout", "1.5"]),
        ("flip", True, ["flip"]),
    ],
)
def test_impossible_settings_are_refused_by_name_and_value(field, value, parts):
    with pytest.raises(ValidationError) as caught:
        AugmentConfig(**{field: value})
    for part in parts:
        assert part in str(caught.value)


def test_config_survives_json():
    config = AugmentConfig(random_resized_crop=(0.3, 1), zoom=(0.9, 1.1), cutout=0.2)
    assert AugmentConfig.model_validate_json(config.model_dump_json()) == config


def test_a_picture_alone_gets_the_same_bits_as_in_a_batch_of_any_size():
    pictures = tf.constant(make_pictures(67))
    together = augment_batch(pictures, EVERYTHING, keys_of(67)).numpy()
    for index in (0, 13, 66):
        alone = augment_image(pictures[index], EVERYTHING, keys_of(67)[index])
        np.testing.assert_array_equal(alone, together[index])
    in_a_graph = tf.function(augment_batch)(pictures[:5], EVERYTHING, keys_of(5))
    np.testing.assert_array_equal(in_a_graph, together[:5])


def test_another_seed_epoch_or_index_changes_the_picture():
    picture = tf.constant(make_pictures(1)[0])
    keys = [draw_key(*parts) for parts in [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1)]]
    results = {augment_image(picture, EVERYTHING, key).numpy().tobytes() for key in keys}
    assert len(results) == 4


def test_keys_of_neighbours_are_unlike():
    keys = np.concatenate([keys_of(1000, epoch=epoch).numpy() for epoch in range(3)])
    assert len(np.unique(keys)) == 3000
    bits = np.unpackbits(keys.view(np.uint8)).reshape(3000, 64)
    assert np.all(np.abs(bits.mean(axis=0) - 0.5) < 0.06)


def test_another_process_gets_the_same_bits():
    code = (
        "import hashlib, numpy as np, tensorflow as tf\n"
        "from test_augment import EVERYTHING, keys_of, make_pictures\n"
        "from keras_vit.augment import augment_batch\n"
        "changed = augment_batch(tf.constant(make_pictures()), EVERYTHING, keys_of(6))\n"
        "print(hashlib.sha256(changed.numpy().tobytes()).hexdigest())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    here = augment_batch(tf.constant(make_pictures()), EVERYTHING, keys_of(6)).numpy()
    assert done.stdout.strip() == hashlib.sha256(here.tobytes()).hexdigest()


def test_flip_mirrors_about_half_of_the_pictures():
    pictures = make_pictures(400, 2, 3, 1)
    changed = augment_batch(
        tf.constant(pictures), AugmentConfig(horizontal_flip=True), keys_of(400)
    ).numpy()
    mirrored = np.all(changed == pictures[:, :, ::-1], axis=(1, 2, 3))
    assert np.all(mirrored | np.all(changed == pictures, axis=(1, 2, 3)))
    assert 150 < mirrored.sum() < 250


def find_warp(config, height=9, width=11, count=50):
    """Return `(count, 3, 2)`: what takes new (x, y, 1) to old (x, y), found from gradients."""
    y, x = np.mgrid[0:height, 0:width].astype("f4")
    ramps = np.stack([x, y, x], axis=-1)[None].repeat(count, axis=0)
    changed = augment_batch(tf.constant(ramps), config, keys_of(count)).numpy()[..., :2]
    new = np.stack([x, y, np.ones_like(x)], axis=-1)
    # Outside, the gradients stand still.
    inside = np.all((changed > 0) & (changed < [width - 1, height - 1]), axis=-1)
    return np.array(
        [
            np.linalg.lstsq(new[chosen], old[chosen], rcond=None)[0]
            for old, chosen in zip(changed, inside, strict=True)
        ]
    )


def test_rotate_turns_about_the_centre_by_up_to_its_angle():
    matrices = find_warp(AugmentConfig(rotate=0.2))
    angles = np.arctan2(matrices[:, 1, 0], matrices[:, 0, 0])
    assert np.abs(angles).max() <= 0.2 + 1e-4
    assert angles.min() < -0.1 and angles.max() > 0.1
    centre = np.array([5, 4, 1]) @ matrices
    np.testing.assert_allclose(centre, np.tile([5, 4], (50, 1)), atol=1e-3)


def test_zoom_scales_about_the_centre_within_its_range():
    matrices = find_warp(AugmentConfig(zoom=(1.1, 1.5)))
    factors = 1 / matrices[:, 0, 0]
    assert 1.1 - 1e-3 <= factors.min() and factors.max() <= 1.5 + 1e-3
    assert factors.max() - factors.min() > 0.2
    np.testing.assert_allclose(matrices[:, 0, 0], matrices[:, 1, 1], atol=1e-4)


def test_shift_moves_by_up_to_its_pixels_each_way():
    matrices = find_warp(AugmentConfig(shift=2.0))
    moved = matrices[:, 2]
    assert np.abs(moved).max() <= 2 + 1e-3
    assert np.all(moved.min(axis=0) < -1) and np.all(moved.max(axis=0) > 1)
    assert abs(np.corrcoef(moved.T)[0, 1]) < 0.4


def test_warp_equals_scipys_bilinear_resampling_with_edges_drawn_out():
    picture = make_pictures(1, 7, 9, 1)[0]
    config = AugmentConfig(rotate=0.4, zoom=(0.7, 1.3), shift=1.0)
    changed = augment_batch(tf.constant(picture[None].repeat(4, 0)), config, keys_of(4)).numpy()
    for matrix, result in zip(find_warp(config, 7, 9, count=4), changed, strict=True):
        swapped = matrix[[1, 0]][:, [1, 0]].T  # from (x, y) to (row, column)
        truth = ndimage.affine_transform(
            picture[..., 0], swapped, matrix[2, ::-1], order=1, mode="nearest"
        )
        np.testing.assert_allclose(result[..., 0], truth, atol=0.1)


def test_cutout_covers_one_square_of_middle_grey():
    pictures = np.full((200, 10, 20, 1), 7, "f4")
    changed = augment_batch(tf.constant(pictures), AugmentConfig(cutout=0.4), keys_of(200)).numpy()
    assert set(np.unique(changed)) == {7, 127.5}
    covered = changed[..., 0] == 127.5
    heights, widths = covered.any(axis=2).sum(axis=1), covered.any(axis=1).sum(axis=1)
    np.testing.assert_array_equal(covered.sum(axis=(1, 2)), heights * widths)
    assert heights.max() == 4 and widths.max() == 8
    assert heights.min() >= 1 and heights.min() < 4  # it may hang over the edge
    assert covered.any(axis=0).all()  # every pixel is covered at some time


def draw_boxes(height, width, config, count=300):
    draw = tf.function(lambda key: random_box(height, width, config, key))
    return np.array([draw(key).numpy() for key in keys_of(count)])


def test_random_boxes_lie_inside_and_have_the_asked_area_and_aspect():
    config = AugmentConfig(random_resized_crop=(0.1, 0.9))
    boxes = draw_boxes(200, 300, config)
    top, left, height, width = boxes.T
    assert np.all(top >= 0) and np.all(left >= 0)
    assert np.all(top + height <= 200) and np.all(left + width <= 300)
    area, aspect = height * width / 60000, width / height
    assert 0.09 < area.min() < 0.2 and 0.7 < area.max() < 0.92
    assert 0.72 < aspect.min() < 0.85 and 1.2 < aspect.max() < 1.37
    assert abs(np.median(np.log(aspect))) < 0.1  # wide as often as tall


def test_a_picture_too_narrow_for_any_box_gets_its_centre():
    config = AugmentConfig(random_resized_crop=(0.9, 1.0))
    assert draw_boxes(300, 30, config, 5).tolist() == [[130, 0, 40, 30]] * 5
    assert draw_boxes(30, 300, config, 5).tolist() == [[0, 130, 30, 40]] * 5
    assert draw_boxes(1, 1, config, 5).tolist() == [[0, 0, 1, 1]] * 5


def test_a_full_turn_is_allowed():
    turned = augment_batch(tf.constant(make_pictures()), AugmentConfig(rotate=math.pi), keys_of(6))
    assert np.isfinite(turned).all()
