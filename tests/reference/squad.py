"""SQuAD's official evaluation, 1.1 and 2.0, by its definition: slow, but obviously correct."""

import string


def words(text):
    """Lower case, without ASCII punctuation and articles, split at white space."""
    kept = "".join(character for character in text.lower() if character not in string.punctuation)
    # An article is not adjacent to a letter, digit or underscore; it becomes a space.
    out, i = [], 0
    while i < len(kept):
        for article in ("the", "an", "a"):
            end = i + len(article)
            before = i == 0 or not (kept[i - 1].isalnum() or kept[i - 1] == "_")
            after = end >= len(kept) or not (kept[end].isalnum() or kept[end] == "_")
            if kept[i:end] == article and before and after:
                out.append(" ")
                i = end
                break
        else:
            out.append(kept[i])
            i += 1
    return "".join(out).split()


def overlap_f1(prediction, answer):
    left, right = words(prediction), words(answer)
    rest, common = list(right), 0
    for word in left:
        if word in rest:
            rest.remove(word)
            common += 1
    return 2 * common / (len(left) + len(right)) if common else 0.0


def version_1(answers, predictions):
    exact = [any(words(predictions[q]) == words(a) for a in answers[q]) for q in answers]
    f1 = [max(overlap_f1(predictions[q], a) for a in answers[q]) for q in answers]
    return {"exact_match": 100 * sum(exact) / len(exact), "f1": 100 * sum(f1) / len(f1)}


def version_2(answers, predictions, null_odds=None, threshold=1.0):
    raw = {"exact": {}, "f1": {}}
    for q, accepted in answers.items():
        texts = [a for a in accepted if words(a)] or [""]
        raw["exact"][q] = max(float(words(a) == words(predictions[q])) for a in texts)
        raw["f1"][q] = max(
            overlap_f1(predictions[q], a)
            if words(a) and words(predictions[q])
            else float(words(a) == words(predictions[q]))
            for a in texts
        )
    result = {}
    groups = {
        "": list(answers),
        "HasAns_": [q for q in answers if answers[q]],
        "NoAns_": [q for q in answers if not answers[q]],
    }
    for prefix, ids in groups.items():
        if not ids:
            continue
        for name, scores in raw.items():
            silent = {q for q in ids if null_odds is not None and null_odds[q] > threshold}
            points = [float(not answers[q]) if q in silent else scores[q] for q in ids]
            result[prefix + name] = 100 * sum(points) / len(ids)
        result[prefix + "total"] = len(ids)
    if null_odds is not None:
        for name, scores in raw.items():
            result |= best_threshold(name, answers, predictions, scores, null_odds)
    return result


def best_threshold(name, answers, predictions, scores, null_odds):
    """Tries every prefix of the questions, by rising null odds, as those that keep their predictions.

    An unanswerable question that keeps its prediction scores only if the prediction is empty.
    """
    order = sorted(answers, key=lambda q: null_odds[q])
    best, threshold = sum(not a for a in answers.values()), 0.0
    for n in range(1, len(order) + 1):
        kept, silent = order[:n], order[n:]
        points = sum(scores[q] if answers[q] else float(predictions[q] == "") for q in kept)
        points += sum(not answers[q] for q in silent)
        if points > best + 1e-12:
            best, threshold = points, null_odds[order[n - 1]]
    return {f"best_{name}": 100 * best / len(answers), f"best_{name}_thresh": threshold}
