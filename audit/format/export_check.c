#include "audit/format/export_check.h"

#include <inttypes.h>
#include <string.h>

#include "audit/format/acts_seen.h"
#include "base/memory.h"

struct export_check {
    struct export_report report;
    struct log_keys keys;
    struct export_head head;
    struct export_text text;
    struct buffer pending; /* the beginning of a line */
    struct leaf leaf;      /* of the last entry */
    struct acts_seen acts;
    uint64_t line, ordinal;
    bool has_key, has_head, has_entry, has_title;
    enum export_place place; /* of the last entry */
};

struct result export_check_new(const struct proof_trust *trust, struct export_check **check_out, struct error *err)
{
    OWNED(export_check) *check = memory_zeroed(1, sizeof *check);

    if (check == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the check of an export");
    check->text = EXPORT_TEXT;
    check->pending = BUFFER(EXPORT_LINE_MAX);
    acts_seen_init(&check->acts, ACTS_SEEN_MAX);
    check->has_key = trust->vkey.length > 0;
    check->report.policy = trust->policy;
    if (check->has_key) TRY(log_keys_read(trust->vkey, &check->keys, err));
    *check_out = GIVE(check);
    return SUCCESS;
}

void export_check_free(struct export_check *check)
{
    if (check == NULL) return;
    export_text_done(&check->text);
    buffer_done(&check->pending);
    acts_seen_done(&check->acts);
    free(check);
}

static struct result denied(const struct export_check *check, struct error *err, const char *why)
{
    return failure(err, ERROR_DENIED, "line %" PRIu64 ": %s", check->line, why);
}

/* ---- the head ---- */

static struct result check_signature(struct export_check *check, const struct note *note, struct error *err)
{
    struct export_report *report = &check->report;
    const struct note_key *key = NULL;

    for (size_t i = 0; i < note->count; i++)
        if (!bytes_equal(note->signatures[i].name, bytes_of_text(report->checkpoint.origin))) report->other_signatures++;
    report->is_signed = check->has_key;
    if (!check->has_key) return SUCCESS;
    TRY(log_keys_verify(&check->keys, note, &report->checkpoint, &key, err));
    TRY(witness_policy_demand(report->policy, &check->keys, note, &report->witnesses, err));
    report->key = *key;
    report->other_signatures -=
        report->witnesses.count < report->other_signatures ? report->witnesses.count : report->other_signatures;
    return SUCCESS;
}

static struct result take_head(struct export_check *check, struct bytes line, struct error *err)
{
    struct export_report *report = &check->report;
    struct note note;

    if (!check->has_title && export_is_title(line)) {
        check->has_title = true;
        return SUCCESS;
    }
    TRY(export_head_read(line, &check->text, &check->head, err));
    TRY(note_read(check->head.note, &note, err));
    TRY(checkpoint_read(note.text, &report->checkpoint, err));
    TRY(check_signature(check, &note, err));
    if (strcmp(report->checkpoint.origin, check->head.origin) != 0)
        return denied(check, err, "the export names another log than its checkpoint");
    if (check->has_title != (check->head.format == EXPORT_CSV))
        return denied(check, err, "a line of titles is in CSV, and only there");
    if (check->head.closing >= report->checkpoint.size)
        return denied(check, err, "the closing entry is not in the log of this checkpoint");
    report->terms = check->head.terms;
    report->format = check->head.format;
    report->closing = check->head.closing;
    check->has_head = true;
    return SUCCESS;
}

/* ---- an entry ---- */

static struct result check_inclusion(const struct export_check *check, const struct export_line *line, const struct leaf *leaf,
                                     struct error *err)
{
    const struct checkpoint *checkpoint = &check->report.checkpoint;
    struct merkle_hash hash;

    merkle_leaf_hash(line->leaf, &hash);
    if (merkle_verify_inclusion(leaf->sequence, checkpoint->size, &hash, &line->inclusion, &checkpoint->root)) return SUCCESS;
    return failure(err, ERROR_DENIED,
                   "line %" PRIu64 ": the entry is not number %" PRIu64
                   " of the log under the checkpoint: its bytes or its proof were changed",
                   check->line, leaf->sequence);
}

/* What its principal has signed, the verifier checks with the key that the event names. A signature is good for one request. */
static struct result check_act(struct export_check *check, const struct export_line *line, const struct leaf *leaf,
                               struct error *err)
{
    struct error why = {0};
    struct signed_act_id id;
    const char *twice = NULL;
    bool is_signed = false;

    if (!signed_act_check(leaf, line->payload, &is_signed, &id, &why).ok)
        return why.kind == ERROR_DENIED ? denied(check, err, why.message) : failure(err, why.kind, "%s", why.message);
    if (is_signed) TRY(acts_seen_add(&check->acts, leaf, &id, &twice, err));
    if (twice != NULL) return denied(check, err, twice);
    check->report.acts += is_signed;
    return SUCCESS;
}

/* Only the bytes that the event committed to can be what was sealed beside it. */
static struct result check_payload(struct export_check *check, const struct export_line *line, const struct leaf *leaf,
                                   struct error *err)
{
    uint8_t commitment[32];

    if (line->payload.length == 0) return SUCCESS;
    if (!check->head.terms.is_opened || line->place != EXPORT_EVENT || !leaf->has_payload)
        return denied(check, err, "it has a sealed part that the export may not have opened");
    TRY(leaf_payload_commitment(line->salt, line->payload, commitment, err));
    if (memcmp(commitment, leaf->payload, sizeof commitment) != 0)
        return denied(check, err, "the event committed to another sealed part than the one that is shown");
    check->report.opened++;
    return check_act(check, line, leaf, err);
}

/* Whether the place is the right one for what the entry is and when it was. */
static const char *wrong_place(const struct export_check *check, enum export_place place, const struct leaf *leaf)
{
    const struct export_terms *terms = &check->head.terms;
    const uint64_t at = terms->unit == EXPORT_BY_TIME ? (uint64_t)leaf->time_ms : leaf->sequence;
    struct export_terms own;

    if (place != EXPORT_CLOSING && leaf->sequence >= check->head.closing) return "an entry from after the closing entry";
    switch (place) {
    case EXPORT_LEFT: return at < terms->from ? NULL : "the neighbour before the range is not before it";
    case EXPORT_EVENT: return at >= terms->from && at < terms->until ? NULL : "an event that is not in the range";
    case EXPORT_RIGHT: return at >= terms->until ? NULL : "the neighbour after the range is not after it";
    case EXPORT_CLOSING: break;
    }
    if (leaf->sequence != check->head.closing || !export_terms_of(leaf, &own))
        return "the closing entry is not the one that the head names";
    return export_terms_equal(&own, terms) ? NULL : "the closing entry is of another export: another key, range or nonce";
}

/* The order of places, numbers and times. */
static const char *wrong_order(const struct export_check *check, enum export_place place, const struct leaf *leaf)
{
    if (!check->has_entry) return NULL;
    if (check->place == EXPORT_CLOSING) return "a line after the closing entry";
    if (place < check->place || (place == check->place && place != EXPORT_EVENT)) return "an entry in a wrong place";
    if (leaf->sequence <= check->leaf.sequence) return "an entry that is not after the one before it";
    return leaf->time_ms >= check->leaf.time_ms ? NULL : "an entry whose time is before that of the one before it";
}

static const char *begin(struct export_check *check, enum export_place place, const struct leaf *leaf, uint64_t ordinal)
{
    struct export_report *report = &check->report;

    report->first_ordinal = ordinal;
    report->left = EXPORT_EDGE_NEIGHBOUR;
    if (place == EXPORT_LEFT) return NULL;
    report->left = EXPORT_EDGE_FIRST;
    if (ordinal == 1) return NULL;
    report->left = EXPORT_EDGE_BEGINNING;
    return export_is_beginning(leaf, check->head.terms.key) ? NULL
                                                            : "the event before the range is missing: the left edge is cut off";
}

/* Under the key, each number must follow from the number before it. Only between the right neighbour and the closing entry may others be. */
static const char *wrong_ordinal(struct export_check *check, enum export_place place, const struct leaf *leaf)
{
    uint64_t ordinal = 0;

    if (!export_ordinal(leaf, check->head.terms.key, &ordinal)) return "an event that does not stand under the key of the export";
    const uint64_t before = check->ordinal;
    check->ordinal = ordinal;
    if (!check->has_entry) return begin(check, place, leaf, ordinal);
    if (check->place == EXPORT_RIGHT) return ordinal > before ? NULL : "the closing entry is not after the event before it";
    return ordinal == before + 1
               ? NULL
               : "an event is missing before this one, or one was put in its place: the numbers under the key have a gap";
}

static void note_entry(struct export_check *check, enum export_place place, const struct leaf *leaf)
{
    struct export_report *report = &check->report;

    if (place == EXPORT_EVENT) {
        if (report->events == 0) report->first = leaf->sequence;
        report->last = leaf->sequence;
        report->events++;
    }
    if (place == EXPORT_CLOSING) {
        report->right = check->has_entry && check->place == EXPORT_RIGHT ? EXPORT_EDGE_NEIGHBOUR : EXPORT_EDGE_CLOSING;
        report->closing_ms = leaf->time_ms;
        memcpy(report->auditor, leaf->actor, sizeof report->auditor);
    }
    check->leaf = *leaf;
    check->place = place;
    check->has_entry = true;
}

static struct result take_entry(struct export_check *check, struct bytes bytes, struct error *err)
{
    struct export_line line;
    struct leaf leaf;

    TRY(export_line_read(check->head.format, bytes, &check->text, &line, &leaf, err));
    TRY(check_inclusion(check, &line, &leaf, err));
    const char *wrong = wrong_order(check, line.place, &leaf);
    if (wrong == NULL) wrong = wrong_place(check, line.place, &leaf);
    if (wrong == NULL) wrong = wrong_ordinal(check, line.place, &leaf);
    if (wrong != NULL) return denied(check, err, wrong);
    TRY(check_payload(check, &line, &leaf, err));
    note_entry(check, line.place, &leaf);
    return SUCCESS;
}

static struct result take_line(struct export_check *check, struct bytes line, struct error *err)
{
    check->line++;
    const struct result taken = check->has_head ? take_entry(check, line, err) : take_head(check, line, err);
    if (taken.ok || err->kind == ERROR_DENIED) return taken;
    struct error why = *err;
    return failure(err, why.kind, "line %" PRIu64 ": %.200s", check->line, why.message);
}

struct result export_check_bytes(struct export_check *check, struct bytes piece, struct error *err)
{
    while (piece.length > 0) {
        const uint8_t *feed = memchr(piece.data, '\n', piece.length);
        const size_t length = feed == NULL ? piece.length : (size_t)(feed - piece.data);
        TRY(buffer_add(&check->pending, piece.data, length, err));
        if (feed == NULL) return SUCCESS;
        TRY(take_line(check, buffer_bytes(&check->pending), err));
        buffer_clear(&check->pending);
        piece = (struct bytes){feed + 1, piece.length - length - 1};
    }
    return SUCCESS;
}

/* ---- the result ---- */

size_t export_check_pending(const struct export_check *check)
{
    return check->pending.length;
}

bool export_check_is_complete(const struct export_check *check)
{
    return check->has_entry && check->place == EXPORT_CLOSING;
}

const struct export_head *export_check_head(const struct export_check *check)
{
    return check->has_head ? &check->head : NULL;
}

bool export_check_last(const struct export_check *check, uint64_t *sequence_out)
{
    if (check->has_entry) *sequence_out = check->leaf.sequence;
    return check->has_entry;
}

uint64_t export_check_size(const struct export_check *check)
{
    return check->report.checkpoint.size;
}

uint64_t export_check_events(const struct export_check *check)
{
    return check->report.events;
}

struct result export_check_end(const struct export_check *check, struct export_report *report_out, struct error *err)
{
    if (!export_check_is_complete(check) || check->pending.length > 0)
        return failure(err, ERROR_DENIED,
                       "the file ends after line %" PRIu64
                       ", before its closing entry or behind it: it is cut off, or has bytes at its end",
                       check->line);
    *report_out = check->report;
    return SUCCESS;
}
