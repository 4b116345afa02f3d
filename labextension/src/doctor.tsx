/** What works on this machine, as the daemon found it. */
import {
  Clipboard,
  Dialog,
  ReactWidget,
  showDialog
} from '@jupyterlab/apputils';
import React from 'react';
import type { IDeps } from './actions/deps';
import { asApiError } from './model';
import { showError } from './notify';
import type { Doctor, Finding } from './wire';

/** Asks the daemon and shows its findings: what needs a hand first, what works folded away. */
export async function showDoctor({ model, trans }: IDeps): Promise<void> {
  let doctor: Doctor;
  try {
    doctor = await model.api.doctor();
  } catch (error) {
    showError(trans, asApiError(error));
    return;
  }
  const { findings } = doctor;
  const states = {
    ok: trans.__('works'),
    warn: trans.__('with limits'),
    fail: trans.__('does not work')
  };
  const list = (shown: readonly Finding[]) => (
    <dl className="jp-Infinijup-doctor">
      {shown.map(({ item, state, evidence, fix }) => (
        <div key={item} data-state={state}>
          <dt>
            {item}: <span>{states[state] ?? state}</span>
          </dt>
          <dd>{evidence}</dd>
          {fix && (
            <dd>
              <strong>{trans.__('What to do:')}</strong> {fix}
            </dd>
          )}
        </div>
      ))}
    </dl>
  );
  const works = findings.filter(one => one.state === 'ok');
  const others = findings.filter(one => one.state !== 'ok');
  // What does not work comes before what works with limits.
  others.sort((a, b) => a.state.localeCompare(b.state));
  const body = ReactWidget.create(
    <div data-infinijup-dialog="doctor">
      {others.length > 0 && list(others)}
      <details>
        <summary>
          {trans._n(
            '%1 thing works as it should',
            '%1 things work as they should',
            works.length
          )}
        </summary>
        {list(works)}
      </details>
    </div>
  );
  body.addClass('jp-Infinijup-dialog');
  const copy = trans.__('Copy');
  const result = await showDialog({
    title: doctor.works
      ? trans.__('Snapshots work on this machine')
      : trans.__('Snapshots do not work on this machine'),
    body,
    buttons: [
      Dialog.createButton({ label: copy }),
      Dialog.okButton({ label: trans.__('Close') })
    ],
    defaultButton: 1
  });
  if (result.button.label === copy) {
    Clipboard.copyToSystem(
      findings
        .map(one =>
          [one.item, one.state, one.evidence, one.fix ?? ''].join('\t')
        )
        .join('\n')
    );
  }
}
