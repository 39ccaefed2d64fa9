#include "audit/format/proof_check.h"

#include <inttypes.h>
#include <string.h>

#include "audit/format/proof.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"

static struct result check_checkpoint(const struct tlog_proof *proof, const struct log_keys *keys, struct proof_report *report,
                                      struct error *err)
{
    const struct note_key *key = NULL;
    struct note note;

    TRY(note_read(proof->note, &note, err));
    TRY(log_keys_verify(keys, &note, &report->checkpoint, &key, err));
    TRY(witness_policy_demand(report->policy, keys, &note, &report->witnesses, err));
    report->key = *key;
    for (size_t i = 0; i < note.count; i++)
        if (!bytes_equal(note.signatures[i].name, bytes_of_text(report->key.name))) report->other_signatures++;
    report->other_signatures -=
        report->witnesses.count < report->other_signatures ? report->witnesses.count : report->other_signatures;
    return SUCCESS;
}

static struct result check_inclusion(const struct tlog_proof *proof, struct bytes entry, struct proof_report *report,
                                     struct error *err)
{
    struct merkle_hash hash;
    struct error unread;

    if (entry.length > MERKLE_ENTRY_MAX) return failure(err, ERROR_LIMIT, "the entry is larger than any entry of a log");
    merkle_leaf_hash(entry, &hash);
    if (!merkle_verify_inclusion(proof->index, report->checkpoint.size, &hash, &proof->inclusion, &report->checkpoint.root))
        return failure(err, ERROR_DENIED,
                       "the entry is not number %" PRIu64 " under that checkpoint: its bytes, or the "
                       "proof, were changed, or they do not belong together",
                       proof->index);
    report->index = proof->index;
    report->is_event = leaf_read(entry, &report->event, &unread).ok;
    if (!report->is_event && unread.kind == ERROR_NO_MEMORY) return failure(err, unread.kind, "%s", unread.message);
    if (report->is_event && report->event.sequence != proof->index)
        return failure(err, ERROR_DENIED, "the entry calls itself number %" PRIu64 ", but stands at number %" PRIu64,
                       report->event.sequence, proof->index);
    return SUCCESS;
}

struct result proof_check(struct bytes vkey, struct bytes entry, struct bytes proof_text, struct proof_report *report_out,
                          struct error *err)
{
    return proof_check_cosigned(&(struct proof_trust){.vkey = vkey}, entry, proof_text, report_out, err);
}

struct result proof_check_cosigned(const struct proof_trust *trust, struct bytes entry, struct bytes proof_text,
                                   struct proof_report *report_out, struct error *err)
{
    struct proof_report report = {.policy = trust->policy};
    struct tlog_proof proof;
    struct log_keys keys;

    TRY(log_keys_read(trust->vkey, &keys, err));
    TRY(tlog_proof_read(proof_text, &proof, err));
    TRY(check_checkpoint(&proof, &keys, &report, err));
    TRY(check_inclusion(&proof, entry, &report, err));
    *report_out = report;
    return SUCCESS;
}

static struct result write_event(const struct leaf *event, struct buffer *text, struct error *err)
{
    char when[CLOCK_TEXT_SIZE];
    const struct leaf_target *target = &event->targets[0];

    clock_format(event->time_ms, when);
    TRY(buffer_format(text, err, "\nWhat the event says:\n  %s  %s %s %s\n", when, event->outcome, target->action,
                      target->resource[0] == '\0' ? "(the registry itself)" : target->resource));
    for (size_t i = 1; i < event->target_count; i++)
        TRY(buffer_format(text, err, "  and %s %s\n", event->targets[i].action, event->targets[i].resource));
    if (strcmp(event->actor, "anonymous") == 0) TRY(buffer_add_text(text, "  by somebody without a valid credential\n", err));
    else if (strcmp(event->actor, "system") == 0) TRY(buffer_add_text(text, "  by the registry itself\n", err));
    else TRY(buffer_format(text, err, "  by the subject with the pseudonym %s\n", event->actor));
    if (event->reason.decision[0] != '\0') TRY(buffer_format(text, err, "  decision %s\n", event->reason.decision));
    for (size_t i = 0; i < event->reason.rule_count; i++)
        TRY(buffer_format(text, err, "  refused by rule %s\n", event->reason.rules[i]));
    return SUCCESS;
}

static struct result write_witnesses(const struct proof_report *report, struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(text, "  - ", err));
    TRY(witness_policy_describe(report->policy, &report->witnesses, text, err));
    return buffer_add_text(text, ": all who demand it are shown one log.\n", err);
}

static struct result write_no_witnesses(const struct proof_report *report, struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(text, "  - that everybody is shown the same log: no policy of witnesses was given (--witness-policy)",
                        err));
    if (report->other_signatures > 0)
        TRY(buffer_format(text, err, ";\n    the checkpoint has %zu more signatures, by keys that you did not give",
                          report->other_signatures));
    return buffer_add_text(text, ";\n", err);
}

struct result proof_report_text(const struct proof_report *report, struct buffer *text, struct error *err)
{
    char id[2 * NOTE_KEY_ID_SIZE + 1];

    text_hex(report->key.id, sizeof report->key.id, id);
    TRY(buffer_format(text, err,
                      "Verified: these bytes are entry %" PRIu64 " of the log %s.\n\n"
                      "Proven, given that the key %s is the log's:\n"
                      "  - the log's signer stated that the log had %" PRIu64 " entries with one certain root;\n"
                      "  - under that root, entry %" PRIu64 " has exactly these bytes: not one was changed since.\n",
                      report->index, report->checkpoint.origin, id, report->checkpoint.size, report->index));
    if (report->policy != NULL) TRY(write_witnesses(report, text, err));
    if (report->is_event) TRY(write_event(&report->event, text, err));
    else TRY(buffer_add_text(text, "\nThe bytes are no event that this version can read.\n", err));
    TRY(buffer_add_text(text, "\nNot proven:\n", err));
    if (report->policy == NULL) TRY(write_no_witnesses(report, text, err));
    return buffer_add_text(text,
                           "  - that the event tells the truth: the registry wrote it;\n"
                           "  - that no other event concerns the same thing;\n"
                           "  - who is behind a pseudonym: that is in the payload, which only an auditor may open.\n",
                           err);
}

struct result proof_report_json(const struct proof_report *report, struct buffer *text, struct error *err)
{
    char root[2 * MERKLE_HASH_SIZE + 1], id[2 * NOTE_KEY_ID_SIZE + 1];

    text_hex(report->checkpoint.root.bytes, MERKLE_HASH_SIZE, root);
    text_hex(report->key.id, sizeof report->key.id, id);
    TRY(buffer_add_text(text, "{\"verified\":true,\"origin\":", err));
    TRY(json_write_string(text, bytes_of_text(report->checkpoint.origin), err));
    TRY(buffer_format(text, err, ",\"index\":%" PRIu64 ",\"size\":%" PRIu64 ",\"root\":\"%s\",\"key_id\":\"%s\"", report->index,
                      report->checkpoint.size, root, id));
    TRY(witness_policy_json(report->policy, &report->witnesses, text, err));
    return buffer_format(text, err, ",\"is_event\":%s,\"unchecked_signatures\":%zu}\n", report->is_event ? "true" : "false",
                         report->other_signatures);
}

struct result certificate_witnesses_text(const struct proof_report *proof, struct buffer *text, struct error *err)
{
    if (proof->policy == NULL)
        return buffer_add_text(text, "No policy of witnesses was given (--witness-policy): others may be shown another log.\n",
                               err);
    TRY(buffer_add_text(text, "  ", err));
    TRY(witness_policy_describe(proof->policy, &proof->witnesses, text, err));
    return buffer_add_text(text, ": all who demand it are shown one log.\n", err);
}
