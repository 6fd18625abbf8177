"""`keras-vit --version`: the versions a bug report needs, and the devices there are."""

import typer

from .environment import prepare


def print_version(wanted: bool) -> None:
    """Print the versions and devices, and leave."""
    if not wanted:
        return
    prepare()
    import keras
    import tensorflow as tf

    import keras_vit

    devices = [
        tf.config.experimental.get_device_details(device).get("device_name", device.device_type)
        for device in tf.config.list_physical_devices()
    ]
    print(f"keras-vit {keras_vit.__version__}")
    print(f"keras {keras.__version__}, backend {keras.backend.backend()}")
    print(f"tensorflow {tf.__version__}")
    print(f"devices: {', '.join(devices)}")
    raise typer.Exit()
