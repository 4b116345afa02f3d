"""The Jupyter server's part: routes, events, kernels that outlive the server."""
