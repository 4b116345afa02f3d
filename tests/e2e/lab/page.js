// Runs in each page before anything else. The tests ask it what they cannot see in the document: a long notebook keeps only the
// visible cells there. `window.jupyterapp` is JupyterLab itself.
(() => {
  const panel = path => {
    for (const widget of window.jupyterapp.shell.widgets('main')) {
      if (widget.context && widget.context.path === path) return widget;
    }
    return null;
  };

  // A cell that has ended looks like one that has not begun, so ends are counted, in the model.
  const count = model => {
    if (model.endsCounted !== undefined) return;
    model.endsCounted = 0;
    model.stateChanged.connect((_, change) => {
      if (change.name === 'executionState' && change.oldValue === 'running' && change.newValue === 'idle') model.endsCounted += 1;
    });
  };

  window.tests = {
    paths: () => Array.from(window.jupyterapp.shell.widgets('main'), widget => widget.context && widget.context.path).filter(path => path),
    widget: path => panel(path).id,
    scrollTo: (path, index) => panel(path).content.scrollToItem(index, 'start'),
    activate: path => window.jupyterapp.shell.activateById(panel(path).id),
    // Whose toolbar and side bar these are: JupyterLab changes it with the focus, a little after it was asked to.
    isCurrent: path => window.jupyterapp.shell.currentWidget === panel(path),
    isDirty: path => panel(path).context.model.dirty,
    setSource: (path, index, source) => panel(path).content.widgets[index].model.sharedModel.setSource(source),

    cells: path => {
      const found = panel(path);
      return found && found.content.widgets.map(({ model, inputArea }) => ({
        id: model.id,
        type: model.type,
        source: model.sharedModel.getSource(),
        count: model.executionCount ?? null,
        state: model.executionState ?? null,
        prompt: inputArea && inputArea.promptNode ? inputArea.promptNode.textContent : null,
        ended: model.endsCounted ?? 0,
        outputs: model.outputs ? model.outputs.toJSON() : []
      }));
    },

    // Makes a cell the active one, in command mode; how often it has ended so far.
    select: (path, index) => {
      const found = panel(path);
      const content = found.content;
      const model = content.widgets[index].model;
      count(model);
      window.jupyterapp.shell.activateById(found.id);
      content.deselectAll();
      content.activeCellIndex = index;
      content.mode = 'command';
      content.activate();
      return model.endsCounted;
    },

    // Whether keys go to this notebook: JupyterLab moves the focus a little after it was asked to.
    hasKeys: path => panel(path).content.node.contains(document.activeElement),

    kernel: path => {
      const found = panel(path);
      const kernel = found && found.sessionContext.session && found.sessionContext.session.kernel;
      // What the page has not sent yet, and what it waits for: for failures.
      return kernel ? {
        id: kernel.id,
        status: kernel.status,
        connection: kernel.connectionStatus,
        unsent: (kernel._pendingMessages || []).length,
        awaited: [...(kernel._futures || new Map()).values()].map(future => future.msg.header.msg_type)
      } : null;
    }
  };

  // Whatever opens as a dialog is told on the console: that survives a reload of the page.
  new MutationObserver(records => {
    for (const record of records) {
      for (const node of record.addedNodes) {
        if (!(node instanceof Element)) continue;
        const dialog = node.matches('.jp-Dialog') ? node : node.querySelector('.jp-Dialog');
        if (dialog) setTimeout(() => console.debug('dialog seen: ' + dialog.innerText), 0);
      }
    }
  }).observe(document, { childList: true, subtree: true });

  // Tasks that kept the page from answering, for the benchmarks.
  window.longTasks = [];
  new PerformanceObserver(list => {
    for (const entry of list.getEntries()) window.longTasks.push({ start: entry.startTime, ms: entry.duration });
  }).observe({ entryTypes: ['longtask'] });
})();
