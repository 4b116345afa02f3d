import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { COLOURS } from '../../src/history/palette';

const ROOT = join(__dirname, '../../../..');
const STYLE = join(ROOT, 'style');
const CSS = readFileSync(join(STYLE, 'history.css'), 'utf8');

/** Relative luminance and contrast of WCAG 2.2. */
function luminance(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map(at => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

/** The lane colours of the two sets, in the order of the style sheet: light, dark. */
function palettes(): string[][] {
  const found = [
    ...CSS.matchAll(/--jp-infinijup-lane(\d): (#[0-9a-f]{6});/g)
  ].map(match => match[2]);
  return [found.slice(0, COLOURS), found.slice(COLOURS)];
}

/** --jp-layout-color1 and -color2 of JupyterLab's themes: a row, and a row that is open or pointed at. */
const BACKGROUNDS = [
  ['#ffffff', '#eeeeee'],
  ['#111111', '#212121', '#424242']
];

describe('lane colours', () => {
  it('can be told from what they are drawn on', () => {
    assert.equal(contrast('#000000', '#ffffff'), 21);
    palettes().forEach((palette, theme) => {
      assert.equal(palette.length, COLOURS);
      assert.equal(new Set(palette).size, COLOURS);
      for (const colour of palette) {
        for (const background of BACKGROUNDS[theme]) {
          const ratio = contrast(colour, background);
          assert.ok(ratio >= 3, `${colour} on ${background}: ${ratio}`);
        }
      }
    });
  });

  it('all have their class', () => {
    for (let i = 0; i < COLOURS; i++) {
      assert.match(CSS, new RegExp(`\\.jp-InfinijupHistory-colour${i} \\{`));
    }
  });
});

describe('style sheets', () => {
  it('use public variables and no other colours', () => {
    for (const name of ['base.css', 'history.css', 'diff.css']) {
      const text = readFileSync(join(STYLE, name), 'utf8')
        .replace(/\/\*[^]*?\*\//g, '')
        .replace(/--jp-infinijup-lane\d: #[0-9a-f]{6};/g, '');
      assert.doesNotMatch(text, /--jp-private|--md-/, name);
      assert.doesNotMatch(text, /#[0-9a-f]{3,8}\b|rgba?\(|hsla?\(/i, name);
    }
  });
});
