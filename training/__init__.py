"""The training script and the recipes: in a wheel this folder is `keras_vit.training`."""
