"""What lies between the matrix products of a convolutional network, compiled.

Images are (image, row, column * channel): the channels of a pixel lie side by side.
"""

from __future__ import annotations

from fedpace.tasks.fast.compiled import Array, compiled


@compiled
def roll(patches: Array, kernel: int, stride: int, channels: int, images: Array) -> None:
    """Patches (image, row, column, values) added up where they were cut from."""
    count, rows, columns, _ = patches.shape
    run, step = kernel * channels, stride * channels
    images[:] = 0
    for b in range(count):
        for row in range(rows):
            for dy in range(kernel):
                for column in range(columns):
                    target = images[b, row * stride + dy, column * step : column * step + run]
                    source = patches[b, row, column, dy * run : (dy + 1) * run]
                    for i in range(run):
                        target[i] += source[i]


@compiled
def pool(values: Array, bias: Array, size: int, margin: int, out: Array) -> None:
    """out = max(0, bias + the largest value of each `size` x `size` square), channel by channel.

    Around the results `out` has a margin that is left alone: the padding of the next convolution.
    """
    channels = len(bias)
    count, rows, columns = len(out), out.shape[1] - 2 * margin, out.shape[2] // channels - 2 * margin
    for b in range(count):
        for row in range(rows):
            for column in range(columns):
                at = (column + margin) * channels
                best = out[b, row + margin, at : at + channels]
                if size == 2:
                    largest_of_four(values[b], row, column, best)
                else:
                    largest(values[b], row, column, size, best)
                for c in range(channels):
                    value = best[c] + bias[c]
                    best[c] = 0 if value <= 0 else value


@compiled
def largest_of_four(image: Array, row: int, column: int, best: Array) -> None:
    at, channels = 2 * column * len(best), len(best)
    upper, lower = image[2 * row, at : at + 2 * channels], image[2 * row + 1, at : at + 2 * channels]
    for c in range(channels):
        best[c] = max(max(upper[c], upper[channels + c]), max(lower[c], lower[channels + c]))


@compiled
def largest(image: Array, row: int, column: int, size: int, best: Array) -> None:
    channels = len(best)
    for c in range(channels):
        top = image[row * size, column * size * channels + c]
        for number in range(1, size * size):
            y, x = row * size + number // size, column * size + number % size
            top = max(top, image[y, x * channels + c])
        best[c] = top


@compiled
def unpool(
    errors: Array, active: Array, size: int, margin: int, values: Array, scale: float, bias: Array
) -> None:
    """The transpose of `pool`: `values` becomes the error of each of them; bias += scale * its gradient.

    The error of a square goes to its first largest value if `active`, what `pool` gave, is positive.
    """
    channels = len(bias)
    count, rows, columns = len(active), active.shape[1] - 2 * margin, active.shape[2] // channels - 2 * margin
    for b in range(count):
        for row in range(rows):
            for column in range(columns):
                at = (column + margin) * channels
                error = errors[b, row + margin, at : at + channels]
                result = active[b, row + margin, at : at + channels]
                for c in range(channels):
                    error[c] = error[c] if result[c] > 0 else 0
                    bias[c] += scale * error[c]
                if size == 2:
                    first_of_four(values[b], row, column, error)
                else:
                    first(values[b], row, column, size, error)


@compiled
def first_of_four(image: Array, row: int, column: int, error: Array) -> None:
    channels, zero = len(error), error.dtype.type(0)
    left, middle, right = 2 * column * channels, (2 * column + 1) * channels, (2 * column + 2) * channels
    upper_left, upper_right = image[2 * row, left:middle], image[2 * row, middle:right]
    lower_left, lower_right = image[2 * row + 1, left:middle], image[2 * row + 1, middle:right]
    for c in range(channels):
        upper, lower = max(upper_left[c], upper_right[c]), max(lower_left[c], lower_right[c])
        above = error[c] if upper >= lower else zero
        below = error[c] if upper < lower else zero
        in_upper, in_lower = upper_left[c] >= upper_right[c], lower_left[c] >= lower_right[c]
        upper_left[c] = above if in_upper else zero
        upper_right[c] = zero if in_upper else above
        lower_left[c] = below if in_lower else zero
        lower_right[c] = zero if in_lower else below


@compiled
def first(image: Array, row: int, column: int, size: int, error: Array) -> None:
    channels = len(error)
    for c in range(channels):
        winner, top = 0, image[row * size, column * size * channels + c]
        for number in range(1, size * size):
            y, x = row * size + number // size, column * size + number % size
            if image[y, x * channels + c] > top:
                winner, top = number, image[y, x * channels + c]
        for number in range(size * size):
            y, x = row * size + number // size, column * size + number % size
            image[y, x * channels + c] = error[c] if number == winner else 0
