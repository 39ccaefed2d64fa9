#include "audit/format/succession_check.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"

struct result succession_plans_read(struct bytes file, struct succession_plans *plans, struct error *err)
{
    struct succession plan;

    while (file.length > 0) {
        const struct bytes line = text_cut(&file, '\n');
        if (line.length == 0) continue;
        if (plans->count == SUCCESSION_OFFICERS_MAX)
            return failure(err, ERROR_LIMIT, "the plan is signed by at most %d officers, one line for each",
                           SUCCESSION_OFFICERS_MAX);
        TRY(dsse_read(line, SUCCESSION_ENVELOPE_MAX, &plans->each[plans->count], err));
        const struct dsse *first = plans->each[0], *newest = plans->each[plans->count++];
        if (strcmp(newest->payload_type, SUCCESSION_PAYLOAD) != 0)
            return failure(err, ERROR_INVALID, "a line is no plan that an officer has signed with sijil admin recover sign");
        if (!bytes_equal(buffer_bytes(&newest->payload), buffer_bytes(&first->payload)))
            return failure(err, ERROR_INVALID, "the officers have signed different plans");
    }
    if (plans->count == 0) return failure(err, ERROR_INVALID, "no officer has signed the plan");
    TRY(succession_read(buffer_bytes(&plans->each[0]->payload), &plan, err));
    if (plans->count == plan.officers) return SUCCESS;
    return failure(err, ERROR_INVALID, "%zu of %u officers have signed the plan%s", plans->count, plan.officers,
                   plans->count < plan.officers ? ": cat their files into one" : "");
}

void succession_plans_done(struct succession_plans *plans)
{
    for (size_t i = 0; i < plans->count; i++) dsse_free(plans->each[i]);
    plans->count = 0;
}

/* ---- who has signed ---- */

static bool has_signed(const struct succession_plans *plans, const struct ecdsa_key *officer)
{
    struct error why;

    for (size_t i = 0; i < plans->count; i++)
        if (dsse_check_signer(plans->each[i], officer, &why).ok) return true;
    return false;
}

static unsigned count_given(const struct succession_trust *trust)
{
    unsigned count = 0;

    while (count < SUCCESSION_OFFICERS_MAX && trust->officers[count] != NULL) count++;
    return count;
}

static bool are_one(const struct ecdsa_key *key, const struct ecdsa_key *other)
{
    uint8_t first[ECDSA_PUBLIC_SIZE], second[ECDSA_PUBLIC_SIZE];

    ecdsa_key_public(key, first);
    ecdsa_key_public(other, second);
    return memcmp(first, second, sizeof first) == 0;
}

/* A verifier that asks for two officers is not content with one, and the other way round it would not see that there is a second one. */
static struct result check_number(const struct succession_trust *trust, unsigned wanted, struct error *err)
{
    const unsigned given = count_given(trust);

    if (wanted < trust->root)
        return failure(err, ERROR_DENIED,
                       "the statement says that %u officers sign, and the policy set says that the root is %u persons", wanted,
                       trust->root);
    if (wanted == 1 && given > 1)
        return failure(
            err, ERROR_DENIED,
            "the root of approvers alone has signed the statement, as in a registry with one administrator: if that is "
            "enough for you, leave out --signer");
    if (wanted != given)
        return failure(err, ERROR_DENIED,
                       "%u officers have signed the statement, and the keys of %u are given: give the key of each (--root, and "
                       "--signer for each other one)",
                       wanted, given);
    for (unsigned i = 0; i < given; i++)
        for (unsigned k = 0; k < i; k++)
            if (are_one(trust->officers[i], trust->officers[k]))
                return failure(err, ERROR_INVALID, "the keys of %u officers are needed, and two are one", wanted);
    return SUCCESS;
}

static struct result check_officers(const struct succession_trust *trust, const struct succession_plans *plans, unsigned wanted,
                                    struct error *err)
{
    TRY(check_number(trust, wanted, err));
    for (unsigned i = 0; i < wanted; i++)
        if (!has_signed(plans, trust->officers[i]))
            return failure(err, ERROR_DENIED, "number %u of the given officers has not signed the statement", i + 1);
    return SUCCESS;
}

/* ---- the log that ended ---- */

static bool is_known(const struct log_keys *keys, const struct note_signature *signature)
{
    for (size_t i = 0; i < keys->count; i++)
        if (memcmp(keys->keys[i].id, signature->id, sizeof signature->id) == 0) return true;
    return false;
}

/* Behind the last of the given keys another one of the log has signed: sijil-keyd signs with the newest one last. */
static bool has_newer_key(const struct note *note, const struct log_keys *keys)
{
    bool has = false;

    for (size_t i = 0; i < note->count; i++)
        if (bytes_equal(note->signatures[i].name, bytes_of_text(keys->keys[0].name))) has = !is_known(keys, &note->signatures[i]);
    return has;
}

static struct result check_note(const struct succession_trust *trust, const struct log_keys *before, struct note *note,
                                struct succession_report *report, struct error *err)
{
    const struct succession *plan = &report->plan;
    struct checkpoint checkpoint;

    if (strcmp(plan->before.origin, before->keys[0].name) != 0)
        return failure(err, ERROR_DENIED, "the statement is about the log %.100s, and the given key is of another",
                       plan->before.origin);
    TRY(note_read(plan->checkpoint, note, err));
    TRY(log_keys_verify(before, note, &checkpoint, NULL, err));
    if (has_newer_key(note, before))
        return failure(err, ERROR_DENIED,
                       "the log that ended had a newer key than the given ones: give its handovers, too (docs/recovery.md)");
    if (checkpoint.size == plan->before.size && !merkle_hash_equal(&checkpoint.root, &plan->before.root))
        return failure(err, ERROR_DENIED, "the checkpoint of the statement is not of the log that it says");
    return witness_policy_demand(trust->log.policy, before, note, &report->verdict, err);
}

static struct result check_log(const struct succession_trust *trust, struct succession_report *report, struct error *err)
{
    struct note *note = memory_zeroed(1, sizeof *note); /* too large for the stack */
    struct log_keys before;

    if (note == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    struct result checked = log_keys_read(trust->log.vkey, &before, err);
    if (checked.ok) checked = check_note(trust, &before, note, report, err);
    free(note);
    TRY(checked);
    report->policy = trust->log.policy;
    const struct note_key *newest = log_keys_newest(&before), *stated = &report->plan.key;
    if (memcmp(newest->public_key, stated->public_key, sizeof stated->public_key) == 0) return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "the statement names another key than the newest one that was given of the log that ended: give its handovers, too "
        "(docs/recovery.md)");
}

struct result succession_check(const struct succession_trust *trust, const struct succession_plans *plans,
                               struct succession_report *report_out, struct error *err)
{
    struct succession_report report = {.has_entry = false};

    TRY(succession_read(buffer_bytes(&plans->each[0]->payload), &report.plan, err));
    TRY(check_officers(trust, plans, report.plan.officers, err));
    TRY(check_log(trust, &report, err));
    *report_out = report;
    return SUCCESS;
}

/* ---- the log that begins ---- */

struct result succession_check_entry(struct succession_report *report, const struct succession_plans *plans, struct bytes entry,
                                     struct bytes proof, struct error *err)
{
    struct buffer OWNED_BUFFER vkey = BUFFER(512);
    char detail[SUCCESSION_DETAIL_SIZE];
    struct proof_report found;

    TRY(note_key_write(&report->plan.key, &vkey, err));
    TRY(proof_check(buffer_bytes(&vkey), entry, proof, &found, err));
    TRY(succession_detail(&report->plan, buffer_bytes(&plans->each[0]->payload), detail, err));
    const struct leaf_target *target = &found.event.targets[0];
    const char *stated = found.is_event && found.event.target_count == 1 ? strchr(target->resource, '#') : NULL;
    if (found.index != report->plan.after.size || stated == NULL || strcmp(stated + 1, detail) != 0 ||
        strcmp(target->action, SUCCESSION_ACTION) != 0 || strcmp(found.event.actor, "system") != 0)
        return failure(err, ERROR_DENIED,
                       "entry %llu of the new log does not say that it follows the other one by this statement",
                       (unsigned long long)found.index);
    report->has_entry = true;
    return SUCCESS;
}

/* ---- the report ---- */

struct result succession_report_text(const struct succession_report *report, struct buffer *text, struct error *err)
{
    const struct succession *plan = &report->plan;
    char who[64] = "the root of approvers ALONE has";

    if (plan->officers > 1)
        (void)snprintf(who, sizeof who, plan->officers == 2 ? "both officers have" : "all %u officers have", plan->officers);
    TRY(buffer_format(text, err,
                      "Verified: %s signed that %s ended with %llu entries, and that %s goes on with the first %llu of them.\n\n",
                      who, plan->before.origin, (unsigned long long)plan->before.size, plan->after.origin,
                      (unsigned long long)plan->after.size));
    if (plan->officers == 1)
        TRY(buffer_add_text(
            text, "  officers    one: no second person has looked at the loss (a registry with one administrator)\n", err));
    TRY(buffer_format(text, err, "  reason      %s\n  new key     ", plan->reason));
    TRY(note_key_write(&plan->key, text, err));
    TRY(buffer_add_text(text, "\n  witnesses   ", err));
    if (report->policy == NULL)
        TRY(buffer_add_text(text, "no policy of witnesses was given: whether somebody outside has a larger log was not checked",
                            err));
    else TRY(witness_policy_describe(report->policy, &report->verdict, text, err));
    return buffer_format(text, err, "\n  first entry %s\n",
                         report->has_entry
                             ? "it is in the new log, and names this statement"
                             : "not given: that the new log says so itself was not checked (--entry, and its proof)");
}

struct result succession_report_json(const struct succession_report *report, struct buffer *text, struct error *err)
{
    const struct succession *plan = &report->plan;

    TRY(buffer_add_text(text, "{\"verified\":true,\"before\":", err));
    TRY(json_write_string(text, bytes_of_text(plan->before.origin), err));
    TRY(buffer_format(text, err, ",\"signed\":%llu,\"after\":", (unsigned long long)plan->before.size));
    TRY(json_write_string(text, bytes_of_text(plan->after.origin), err));
    TRY(buffer_format(text, err, ",\"left\":%llu,\"key\":\"", (unsigned long long)plan->after.size));
    TRY(note_key_write(&plan->key, text, err));
    TRY(buffer_format(text, err, "\",\"officers\":%u", plan->officers));
    TRY(buffer_add_text(text, ",\"reason\":", err));
    TRY(json_write_string(text, bytes_of_text(plan->reason), err));
    TRY(buffer_format(text, err, ",\"entry\":%s", report->has_entry ? "true" : "false"));
    TRY(witness_policy_json(report->policy, &report->verdict, text, err));
    return buffer_add_text(text, "}\n", err);
}
