"""Files of predictions: one prediction per line, in the order of the examples."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from taskloom.errors import InputError


@dataclass(frozen=True, slots=True)
class Prediction:
    """One prediction: its text, its line, and what is wrong with that line, if anything."""

    text: str
    line: int
    fault: str = ""


def parse_prediction(line: str, number: int) -> Prediction:
    """Parse one line: a line in double quotes is a JSON text, so that a prediction may hold line ends or be empty."""
    if not line or not line[0] == line[-1] == '"':
        return Prediction(line, number)
    try:
        return Prediction(str(json.loads(line)), number)
    except ValueError:
        fault = 'the line begins and ends with a double quote but is not a JSON text; escape inner quotes as \\"'
        return Prediction(line, number, fault)


def read_predictions(path: Path) -> list[str]:
    """Read one prediction per line.

    Raises:
        InputError: For a file that is missing or not UTF-8, and for a line with a broken JSON text.
    """
    if path.is_dir() or not path.exists():  # a pipe is not a file, and can be read
        raise InputError(f"there is no file {path}; it should hold one prediction per line")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    lines = text.removesuffix("\n").split("\n") if text else []
    predictions = [parse_prediction(line.removesuffix("\r"), number) for number, line in enumerate(lines, start=1)]
    for prediction in predictions:
        if prediction.fault:
            raise InputError(f"{path}:{prediction.line}: {prediction.fault}")
    return [prediction.text for prediction in predictions]
