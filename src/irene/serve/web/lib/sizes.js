// Steps of sliders: small numbers one by one, then half octaves.

/**
 * @param {number} least
 * @param {number} most
 * @returns {number[]} 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, …
 */
export function steps(least, most) {
  const values = [];
  for (let power = 1; power <= most; power *= 2) {
    values.push(power);
    if (power >= 2) values.push(power * 1.5);
  }
  return values.filter((value) => value >= least && value <= most);
}

/**
 * Where a value stands on a slider of these steps, 0 to 1.
 * @param {readonly number[]} values
 * @param {number} value
 */
export function position(values, value) {
  const above = values.findIndex((each) => each >= value);
  if (above <= 0) return above;
  const [low, high] = [/** @type {number} */ (values[above - 1]), /** @type {number} */ (values[above])];
  return (above - 1 + Math.log(value / low) / Math.log(high / low)) / (values.length - 1);
}

/**
 * Where a value stands among the steps: the nearest one.
 * @param {readonly number[]} values
 * @param {number} value
 */
export function nearest(values, value) {
  let best = 0;
  values.forEach((each, i) => {
    if (Math.abs(Math.log(each / value)) < Math.abs(Math.log(/** @type {number} */ (values[best]) / value))) best = i;
  });
  return best;
}
