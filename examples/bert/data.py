# SPDX-License-Identifier: Apache-2.0
"""Writes texts for two tasks: data.py DIR WORDS TEXTS. DIR/topics has many texts with one of 8 topics as the label, DIR/opinions has 64 with one
of 2 opinions, which is that of the topic.

Half of the words of a text are from the vocabulary of its topic, the others from all. No text of 64 shows more than a few words: to classify
others a model has to know the topics of words. Tokens: 0 padding, 1 begin, 2 end, 3 ... words.
"""

import pathlib
import random
import sys

from npy_writer import write_npy

TOPICS, LENGTH = 8, 32
folder, words, texts = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
order = list(range(3, 3 + words))
random.Random(1).shuffle(order)
vocabularies = [order[topic::TOPICS] for topic in range(TOPICS)]
for task, train in (("topics", texts), ("opinions", 64)):
    (folder / task).mkdir(parents=True, exist_ok=True)
    for split, count in (("train", train), ("eval", 512)):
        draw = random.Random(task + split)
        ids, masks, labels = [], [], []
        for number in range(count):
            topic, size = number % TOPICS, draw.randint(8, LENGTH - 2)
            text = [draw.choice(vocabularies[topic] if draw.random() < 0.5 else order) for _ in range(size)]
            ids += [1, *text, 2] + [0] * (LENGTH - 2 - size)
            masks += [1] * (size + 2) + [0] * (LENGTH - 2 - size)
            labels.append(topic if task == "topics" else topic // 4)
        write_npy(folder / task / f"ids_{split}.npy", "i", (count, LENGTH), ids)
        write_npy(folder / task / f"mask_{split}.npy", "B", (count, LENGTH), masks)
        write_npy(folder / task / f"types_{split}.npy", "B", (count, LENGTH), [0] * len(ids))
        write_npy(folder / task / f"label_{split}.npy", "i", (count,), labels)
