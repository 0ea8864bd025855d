# ===- compression_schemes.py - Simulations of compressed sums ----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Schemes of --compress-gradients in Python. Each one has the number of elements that ranks sum for a
matrix, or None if the matrix is not compressed; the shapes of its states; and a step, which returns
the sum of the matrices of all ranks and changes the states. A matrix is a list of rows. The states
are matrices by slot; 'error' is a list of one for each rank."""

LEAST_SQUARE, LEAST_PART, KEPT_PART = 1e-35, 1e-24, 1e-15


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def orthonormal(rows):
    """Returns the rows that modified Gram-Schmidt makes of `rows`."""
    done = []
    for row in rows:
        lost = LEAST_PART * dot(row, row) + LEAST_SQUARE
        for other in done:
            factor = dot(row, other)
            row = [x - factor * y for x, y in zip(row, other)]
        scale = (dot(row, row) + lost) ** -0.5
        done.append([x * scale for x in row])
    return done


def summed(matrices):
    return [[sum(column) for column in zip(*rows)] for rows in zip(*matrices)]


def difference(a, b):
    return [[x - y for x, y in zip(*rows)] for rows in zip(a, b)]


def product(left, right):
    """Returns left^T right."""
    columns = list(zip(*right))
    return [[dot(weights, column) for column in columns] for weights in zip(*left)]


def with_part(new, old):
    return [[x + KEPT_PART * y for x, y in zip(*rows)] for rows in zip(new, old)]


def left_factor(right, matrix):
    return [[dot(q, row) for row in matrix] for q in right]


def right_factor(left, matrix):
    return [[dot(p, column) for column in zip(*matrix)] for p in left]


class PowerSgd:
    def __init__(self, rank):
        self.rank = rank

    def summed_elements(self, rows, columns):
        elements = self.rank * (rows + columns)
        return elements if 2 * elements <= rows * columns else None

    def shapes(self, parts, rows, columns):
        return {"error": [parts, rows, columns], "basis": [self.rank, columns]}

    def step(self, parts, state):
        corrected = [summed(pair) for pair in zip(parts, state["error"])]
        old = orthonormal(state["basis"])
        left = orthonormal(summed([left_factor(old, d) for d in corrected]))
        own = [right_factor(left, d) for d in corrected]
        right = summed(own)
        state["error"] = [difference(d, product(left, factor)) for d, factor in zip(corrected, own)]
        state["basis"] = with_part(right, old)
        return product(left, right)


class GradZip:
    """Sums the left and the right factor in turns."""

    def __init__(self, rank):
        self.rank = rank

    def summed_elements(self, rows, columns):
        elements = self.rank * max(rows, columns)
        return elements if 2 * elements <= rows * columns else None

    def shapes(self, parts, rows, columns):
        return {
            "error": [parts, rows, columns],
            "row_basis": [self.rank, rows],
            "basis": [self.rank, columns],
            "turn": [1],
        }

    def step(self, parts, state):
        corrected = [summed(pair) for pair in zip(parts, state["error"])]
        left, right = orthonormal(state["row_basis"]), orthonormal(state["basis"])
        sums_right = state["turn"] == [[1.0]]
        if sums_right:
            own = [(left, right_factor(left, d)) for d in corrected]
            result = left, summed([factor for _, factor in own])
        else:
            own = [(left_factor(right, d), right) for d in corrected]
            result = summed([factor for factor, _ in own]), right
        state["error"] = [difference(d, product(*factors)) for d, factors in zip(corrected, own)]
        state["row_basis"], state["basis"] = with_part(result[0], left), with_part(result[1], right)
        state["turn"] = [[0.0 if sums_right else 1.0]]
        return product(*result)


class CountSketch:
    def __init__(self, factor):
        self.factor = factor

    def tables(self, rows):
        """Returns the numbers of rows of the tables."""
        least = rows // self.factor // 3 - 1
        least -= least % 2 == 0
        return [least, least + 1, least + 2]

    def block(self):
        """Returns the number of elements of which one is chosen."""
        return 8 * self.factor

    def summed_elements(self, rows, columns):
        tables = self.tables(rows)
        elements = sum(tables) * columns + -(-rows * columns // self.block())
        return elements if tables[0] >= 3 and 4 * elements <= 3 * rows * columns else None

    def shapes(self, parts, rows, columns):
        return {"error": [parts, rows, columns], "signs": [3, rows]}

    def sketch(self, matrix, numbers):
        result = []
        for count, signs in zip(self.tables(len(matrix)), numbers):
            table = [[0.0] * len(matrix[0]) for _ in range(count)]
            for t, row in enumerate(matrix):
                sign = 1 if signs[t] > 0 else -1
                table[t % count] = [a + sign * x for a, x in zip(table[t % count], row)]
            result += table
        return result

    def estimate(self, sketch, numbers):
        rows = len(numbers[0])
        matrix = []
        for t in range(rows):
            first, found = 0, []
            for count, signs in zip(self.tables(rows), numbers):
                sign = 1 if signs[t] > 0 else -1
                found.append([sign * x for x in sketch[first + t % count]])
                first += count
            matrix.append([sorted(three)[1] for three in zip(*found)])
        return matrix

    def step(self, parts, state):
        corrected = [summed(pair) for pair in zip(parts, state["error"])]
        columns = len(corrected[0][0])
        sketch = summed([self.sketch(matrix, state["signs"]) for matrix in corrected])
        estimate = [x for row in self.estimate(sketch, state["signs"]) for x in row]
        sent = [[0.0] * len(estimate) for _ in corrected]
        block = self.block()
        for begin in range(0, len(estimate), block):
            most = max(map(abs, estimate[begin : begin + block]))
            end = min(begin + block, len(estimate))
            chosen = [i for i in range(begin, end) if abs(estimate[i]) * (1 + 1e-6) > most]
            for matrix, to in zip(corrected, sent):
                for i in chosen:
                    to[i] = sum(matrix[j // columns][j % columns] for j in chosen) / len(chosen)
        sent = [[to[i : i + columns] for i in range(0, len(to), columns)] for to in sent]
        state["error"] = [difference(*pair) for pair in zip(corrected, sent)]
        return summed(sent)


def scheme_of(name):
    kind, _, size = name.partition(":")
    return {"powersgd": PowerSgd, "gradzip": GradZip, "count-sketch": CountSketch}[kind](int(size))
