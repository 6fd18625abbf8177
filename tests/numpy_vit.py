"""A Vision Transformer's forward pass in float64 NumPy, written from the papers: the tests' truth.

It shares no code with keras_vit and takes other roads on purpose: patches by slicing pixel
blocks one at a time, attention one head and one picture at a time, sums where the layers use
library calls. It only knows the public names of the weights.

References:
    Dosovitskiy et al. 2021 (arXiv 2010.11929), equations 1 to 4 and appendix A.
    Vaswani et al. 2017 (arXiv 1706.03762), sections 3.2.1 and 3.5.
    Beyer et al. 2022 (arXiv 2205.01580): 2-D sinusoids; Zhai et al. 2022 (arXiv 2106.04560): MAP.
    Darcet et al. 2023 (arXiv 2309.16588): registers; Dehghani et al. 2023 (arXiv 2302.05442):
    queries and keys normalised; Touvron et al. 2021 (arXiv 2103.17239): layer scale.
"""

import math

import numpy as np

ERF = np.vectorize(math.erf, otypes=[np.float64])


def forward(weights, pixels, options):
    """Logits (or features) for pixels in [0, 255].

    Args:
        weights: Name such as "patch_encoder/projection/kernel" to array.
        pixels: `(B, H, W, C)`.
        options: The fields of a ViTConfig as a dict, `mean` and `std` added by the caller.

    Returns:
        `(B, num_classes)` float64, or `(B, D)` when there are no classes.
    """
    w = {name: np.asarray(value, np.float64) for name, value in weights.items()}
    pixels = np.asarray(pixels, np.float64)
    return np.stack([_one_picture(w, picture, options) for picture in pixels])


def _one_picture(w, picture, o):
    z = (picture / 255 - np.array(o["mean"])) / np.array(o["std"])
    z = cut_patches(z, o["patch_size"]) @ w["patch_encoder/projection/kernel"]
    z = z + w["patch_encoder/projection/bias"]
    z = _with_prefix(w, z, o)
    for index in range(o["num_layers"]):
        z = _block(w, f"transformer_block_{index:02d}/", z, o)
    z = layer_norm(z, w, "encoder_norm/", o["layer_norm_epsilon"])
    y = _pool(w, z, o)
    if o["representation_size"]:
        y = np.tanh(y @ w["pre_logits/kernel"] + w["pre_logits/bias"])
    if o["num_classes"]:
        y = y @ w["predictions/kernel"] + w["predictions/bias"]
    return y


def cut_patches(picture, patch_size):
    """Row by row from the top left; within a patch row, column, channel."""
    high, wide = patch_size
    rows, columns = picture.shape[0] // high, picture.shape[1] // wide
    return np.array(
        [
            picture[r * high : (r + 1) * high, c * wide : (c + 1) * wide].flatten()
            for r in range(rows)
            for c in range(columns)
        ]
    )


def _with_prefix(w, patches, o):
    """[class token], [registers], patches; positions on class token (learned) and patches only."""
    grid = tuple(i // p for i, p in zip(o["image_size"], o["patch_size"], strict=True))
    kind, width = o["position_embedding"], o["hidden_dim"]
    class_row = np.zeros(width)
    if kind == "learned":
        table = w["patch_encoder/position_embedding"]
        if o["class_token"]:
            class_row, table = table[0], table[1:]
        patches = patches + table
    elif kind == "sincos2d":
        patches = patches + sinusoids_2d(*grid, width)
    elif kind == "sincos1d":
        patches = patches + sinusoids_1d(grid[0] * grid[1], width)
    tokens = list(patches)
    if o["num_register_tokens"]:
        tokens = list(w["patch_encoder/register_tokens"]) + tokens
    if o["class_token"]:
        tokens = [w["patch_encoder/class_token"].reshape(width) + class_row, *tokens]
    return np.array(tokens)


def sinusoids_1d(length, width):
    """sin(p / 10000^(2i/D)) for i < D/2, then the cosines."""
    table = np.empty((length, width))
    for p in range(length):
        for i in range(width // 2):
            angle = p / 10_000 ** (2 * i / width)
            table[p, i], table[p, width // 2 + i] = math.sin(angle), math.cos(angle)
    return table


def sinusoids_2d(rows, columns, width):
    """A quarter each: sin x, cos x, sin y, cos y; frequencies from 1 down to 1/10000 inclusive."""
    quarter = width // 4
    table = np.empty((rows * columns, width))
    for y in range(rows):
        for x in range(columns):
            row = table[y * columns + x]
            for i in range(quarter):
                frequency = 10_000 ** (-i / (quarter - 1))
                row[i], row[quarter + i] = math.sin(x * frequency), math.cos(x * frequency)
                row[2 * quarter + i] = math.sin(y * frequency)
                row[3 * quarter + i] = math.cos(y * frequency)
    return table


def _block(w, at, z, o):
    y = layer_norm(z, w, at + "norm_1/", o["layer_norm_epsilon"])
    options = (o["qkv_bias"], o["qk_norm"], o["layer_norm_epsilon"])
    y, _ = attention(w, at + "attention/", y, y, o["num_heads"], *options)
    scaled = o["layer_scale_init_value"] is not None
    z = z + (y * w[at + "layer_scale_1"] if scaled else y)
    y = layer_norm(z, w, at + "norm_2/", o["layer_norm_epsilon"])
    y = mlp(w, at + "mlp/", y, o["activation"])
    return z + (y * w[at + "layer_scale_2"] if scaled else y)


def attention(w, at, x, context, num_heads, qkv_bias=True, qk_norm=False, epsilon=1e-6):
    """softmax(q k / sqrt(d)) v for each head, heads side by side, then the output projection.

    Returns:
        `((N, D), (h, N, M))`: the result and the weights of every head.
    """

    q, k = x @ w[at + "query/kernel"], context @ w[at + "key/kernel"]
    v = context @ w[at + "value/kernel"]
    if qkv_bias:
        q, k, v = q + w[at + "query/bias"], k + w[at + "key/bias"], v + w[at + "value/bias"]
    size = q.shape[1] // num_heads
    results, maps = [], []
    for head in range(num_heads):
        columns = slice(head * size, (head + 1) * size)
        query, key = q[:, columns], k[:, columns]
        if qk_norm:
            query = layer_norm(query, w, at + "query_norm/", epsilon)
            key = layer_norm(key, w, at + "key_norm/", epsilon)
        weights = np.array([softmax(key @ row / math.sqrt(size)) for row in query])
        results.append(weights @ v[:, columns])
        maps.append(weights)
    y = np.hstack(results) @ w[at + "projection/kernel"] + w[at + "projection/bias"]
    return y, np.array(maps)


def softmax(row):
    powers = np.exp(row - row.max())
    return powers / powers.sum()


def layer_norm(x, w, at, epsilon):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + epsilon) * w[at + "gamma"] + w[at + "beta"]


def gelu(x):
    """x times the normal distribution's cumulative function."""
    return x * 0.5 * (1 + ERF(x / math.sqrt(2)))


def gelu_tanh(x):
    """The approximation of Hendrycks and Gimpel 2016 (arXiv 1606.08415), section 2."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def mlp(w, at, x, activation):
    hidden = x @ w[at + "dense_1/kernel"] + w[at + "dense_1/bias"]
    hidden = {"gelu": gelu, "gelu_tanh": gelu_tanh}[activation](hidden)
    return hidden @ w[at + "dense_2/kernel"] + w[at + "dense_2/bias"]


def _pool(w, z, o):
    if o["pooling"] == "token":
        return z[0]
    if o["pooling"] == "gap":
        return z[int(o["class_token"]) + o["num_register_tokens"] :].mean(axis=0)
    return map_head(w, "pooling/", z, o["num_heads"], o["activation"], o["layer_norm_epsilon"])


def map_head(w, at, z, num_heads, activation, epsilon):
    """One learned query attends to all tokens; then a residual MLP."""
    y, _ = attention(w, at + "attention/", w[at + "probe"], z, num_heads)
    y = y + mlp(w, at + "mlp/", layer_norm(y, w, at + "norm/", epsilon), activation)
    return y[0]
