"""What the browser tests are written in: a JupyterLab server of their own, a browser, notebooks and the History panel."""
