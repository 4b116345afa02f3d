"""The Jupyter server's side of infinijup: kernels that are exchanged under open pages, REST and events for the user interface.

Needs jupyter_server and httpx; `import infinijup` alone, as kernels do it, never comes here.
"""
