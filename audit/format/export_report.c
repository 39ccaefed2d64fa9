#include <inttypes.h>
#include <string.h>

#include "audit/format/export_check.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"

static struct result write_opened(const struct export_report *report, struct buffer *text, struct error *err)
{
    if (!report->terms.is_opened)
        return buffer_add_text(text, "  sealed    names and addresses: no sealed part was opened\n", err);
    TRY(buffer_format(text, err,
                      "  opened    the sealed parts of %" PRIu64
                      " events; the log has that they were opened, and for which purpose\n",
                      report->opened));
    if (report->acts == 0) return SUCCESS;
    return buffer_format(text, err,
                         "  signed    %" PRIu64 " requests, by the person that asked: each signature is that of the key that its "
                         "event names, and stands for one request\n",
                         report->acts);
}

static struct result write_bound(const struct export_terms *terms, const char *word, uint64_t bound, struct buffer *text,
                                 struct error *err)
{
    char when[CLOCK_TEXT_SIZE];

    if (terms->unit == EXPORT_BY_NUMBER) return buffer_format(text, err, " %s number %" PRIu64, word, bound);
    clock_format((int64_t)bound, when);
    return buffer_format(text, err, " %s %s", word, when);
}

static struct result write_range(const struct export_terms *terms, struct buffer *text, struct error *err)
{
    if (terms->from > 0) TRY(write_bound(terms, "from", terms->from, text, err));
    if (terms->until < EXPORT_NUMBER_MAX) TRY(write_bound(terms, "before", terms->until, text, err));
    return SUCCESS;
}

static const char *left_words(enum export_edge edge)
{
    if (edge == EXPORT_EDGE_FIRST) return "the first event has the number 1 under the key: there is none before it";
    if (edge == EXPORT_EDGE_NEIGHBOUR) return "the event before the range is shown, and its number is the one before";
    return "the first event began this organisation or project; the events before it are about an earlier one of the same name";
}

static const char *right_words(enum export_edge edge)
{
    return edge == EXPORT_EDGE_NEIGHBOUR ? "the event after the range is shown, and its number is the next one"
                                         : "the closing entry has the next number: nothing came between";
}

static struct result write_found(const struct export_report *report, struct buffer *text, struct error *err)
{
    char when[CLOCK_TEXT_SIZE];

    clock_format(report->closing_ms, when);
    TRY(buffer_format(text, err, "Verified: %" PRIu64 " events under %s", report->events, report->terms.key));
    TRY(write_range(&report->terms, text, err));
    if (report->heads.size > 0) TRY(buffer_add_text(text, ", and not one is missing.\n\n", err));
    else TRY(buffer_add_text(text, ", and not one is missing: complete only if the writer was honest.\n\n", err));
    if (report->events > 0)
        TRY(buffer_format(text, err, "  numbers   %" PRIu64 " to %" PRIu64 "\n", report->first, report->last));
    TRY(buffer_format(text, err, "  log       %s, %" PRIu64 " entries\n", report->checkpoint.origin, report->checkpoint.size));
    TRY(buffer_format(text, err, "  asked     %s, by the auditor with the pseudonym %s; entry %" PRIu64 "\n", when,
                      report->auditor, report->closing));
    TRY(buffer_format(text, err, "  nonce     %s\n", report->terms.nonce));
    return write_opened(report, text, err);
}

static struct result write_witnesses(const struct export_report *report, struct buffer *text, struct error *err)
{
    if (report->policy == NULL) return SUCCESS;
    TRY(buffer_add_text(text, "  - ", err));
    TRY(witness_policy_describe(report->policy, &report->witnesses, text, err));
    return buffer_add_text(text, ": all who demand it are shown one log.\n", err);
}

static struct result write_no_witnesses(const struct export_report *report, struct buffer *text, struct error *err)
{
    if (report->policy != NULL) return SUCCESS;
    TRY(buffer_add_text(text, ";\n  - that everybody is shown the same log: no policy of witnesses was given (--witness-policy)",
                        err));
    if (report->other_signatures == 0) return SUCCESS;
    return buffer_format(text, err, ";\n    the checkpoint has %zu more signatures, by keys that you did not give",
                         report->other_signatures);
}

/* Whoever has replayed all entries knows that the numbers and the keys are right. */
static struct result write_replayed(const struct export_report *report, struct buffer *text, struct error *err)
{
    char when[CLOCK_TEXT_SIZE];

    if (report->heads.size == 0)
        return buffer_add_text(
            text,
            "\nNot proven:\n"
            "  - that no wrong number is in an entry that is not shown, or that no event lacks the key: complete only if the\n"
            "    writer was honest. Only one who reads the whole log can tell",
            err);
    clock_format((int64_t)report->heads.time_s * 1000, when);
    return buffer_format(text, err,
                         "  - the auditor %s stated on %s that in the %" PRIu64
                         " entries of this log each number under each key is right,\n    and that no event lacks a key.\n"
                         "\nNot proven:\n  - that this auditor is honest: you gave its key",
                         report->heads.auditor, when, report->heads.size);
}

struct result export_report_text(const struct export_report *report, struct buffer *text, struct error *err)
{
    TRY(write_found(report, text, err));
    TRY(buffer_format(text, err, "\nProven%s:\n",
                      report->is_signed ? ", given that the key is the log's"
                                        : " only if you trust who made the file, because no key was given"));
    TRY(buffer_format(text, err, "  - each entry has exactly these bytes in the log of %" PRIu64 " entries;\n",
                      report->checkpoint.size));
    TRY(buffer_format(text, err, "  - their numbers under the key follow each other without a gap, from %" PRIu64 " on;\n",
                      report->first_ordinal));
    TRY(buffer_format(text, err, "  - at the left edge %s;\n  - at the right edge %s;\n", left_words(report->left),
                      right_words(report->right)));
    TRY(buffer_add_text(text, "  - the registry answered a question with this nonce: an older answer has another one.\n", err));
    TRY(write_witnesses(report, text, err));
    TRY(write_replayed(report, text, err));
    TRY(write_no_witnesses(report, text, err));
    return buffer_add_text(
        text, report->has_own_nonce ? ".\n" : ";\n  - that the nonce is yours: compare it, or give it with --nonce.\n", err);
}

static const char *edge_name(enum export_edge edge)
{
    static const char *const names[] = {"first", "beginning", "neighbour", "closing"};

    return names[edge];
}

static struct result add_text(struct buffer *text, const char *name, const char *value, struct error *err)
{
    TRY(buffer_format(text, err, ",\"%s\":", name));
    return json_write_string(text, bytes_of_text(value), err);
}

struct result export_report_json(const struct export_report *report, struct buffer *text, struct error *err)
{
    const struct export_terms *terms = &report->terms;
    char root[2 * MERKLE_HASH_SIZE + 1];

    text_hex(report->checkpoint.root.bytes, MERKLE_HASH_SIZE, root);
    TRY(buffer_format(text, err, "{\"verified\":true,\"complete\":\"%s\",\"signed\":%s",
                      report->heads.size > 0 ? "if the auditor who replayed the log was honest" : "only if the writer was honest",
                      report->is_signed ? "true" : "false"));
    if (report->heads.size > 0) TRY(add_text(text, "replayed_by", report->heads.auditor, err));
    TRY(add_text(text, "origin", report->checkpoint.origin, err));
    TRY(add_text(text, "key", terms->key, err));
    TRY(add_text(text, "unit", export_unit_name(terms->unit), err));
    TRY(add_text(text, "format", export_format_name(report->format), err));
    TRY(add_text(text, "nonce", terms->nonce, err));
    TRY(add_text(text, "auditor", report->auditor, err));
    TRY(add_text(text, "left", edge_name(report->left), err));
    TRY(add_text(text, "right", edge_name(report->right), err));
    TRY(add_text(text, "root", root, err));
    TRY(buffer_format(text, err, ",\"from\":%" PRIu64 ",\"until\":%" PRIu64 ",\"closing\":%" PRIu64 ",\"closing_ms\":%" PRId64,
                      terms->from, terms->until, report->closing, report->closing_ms));
    TRY(buffer_format(
        text, err, ",\"size\":%" PRIu64 ",\"events\":%" PRIu64 ",\"is_opened\":%s,\"opened\":%" PRIu64 ",\"acts\":%" PRIu64,
        report->checkpoint.size, report->events, terms->is_opened ? "true" : "false", report->opened, report->acts));
    if (report->events > 0)
        TRY(buffer_format(text, err, ",\"first\":%" PRIu64 ",\"last\":%" PRIu64, report->first, report->last));
    TRY(witness_policy_json(report->policy, &report->witnesses, text, err));
    return buffer_format(text, err, ",\"unchecked_signatures\":%zu}\n", report->other_signatures);
}
