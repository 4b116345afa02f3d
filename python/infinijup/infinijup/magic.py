"""`%infinijup` in IPython kernels."""


def load(_shell):
    """Registers the magic."""


def unload(_shell):
    """Takes it away."""
