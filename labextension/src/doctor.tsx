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
import type { Doctor } from './wire';

/** Asks the daemon and shows its findings. */
export async function showDoctor({ model, trans }: IDeps): Promise<void> {
  let doctor: Doctor;
  try {
    doctor = await model.api.doctor();
  } catch (error) {
    showError(trans, asApiError(error));
    return;
  }
  const states = {
    ok: trans.__('works'),
    warn: trans.__('with limits'),
    fail: trans.__('does not work')
  };
  const body = ReactWidget.create(
    <table
      className="jp-Infinijup-doctor"
      data-infinijup-dialog="doctor"
      aria-label={trans.__('Findings')}
    >
      <tbody>
        {doctor.findings.map(finding => (
          <tr key={finding.item} data-state={finding.state}>
            <th scope="row">{finding.item}</th>
            <td>{states[finding.state] ?? finding.state}</td>
            <td>
              {finding.evidence}
              {finding.fix && <div>{finding.fix}</div>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
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
      doctor.findings
        .map(one =>
          [one.item, one.state, one.evidence, one.fix ?? ''].join('\t')
        )
        .join('\n')
    );
  }
}
