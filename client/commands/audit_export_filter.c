/* Conditions of a search at `sijil audit export`: one may be a key of its own. For all others it is decided here, and nothing is sent: an address would stand in a request for nothing. */
#include <stdio.h>
#include <string.h>

#include "audit/format/leaf.h"
#include "client/commands/audit_priv.h"

static const char *value_of(const struct invocation *invocation, const struct audit_condition *condition)
{
    return invocation_option(invocation, AUDIT_EXPORT_CONDITION + condition->letter);
}

size_t audit_export_conditions(const struct invocation *invocation)
{
    size_t count = 0;

    for (size_t i = 0; i < AUDIT_CONDITIONS; i++) count += value_of(invocation, &audit_conditions[i]) != NULL;
    return count;
}

static void advise(struct invocation *invocation, const char *key)
{
    char advice[AUDIT_KEY_SIZE + 16];

    (void)snprintf(advice, sizeof advice, "--key %s", key);
    invocation_explain(invocation, "try", advice);
}

/* A condition that looks like one with a key, and has none because of how it is written. */
static struct result check_value(const struct audit_condition *condition, const char *value, struct error *err)
{
    char key[AUDIT_KEY_SIZE];
    bool is_exact = false;

    if (leaf_key_of_condition(condition->name, value, key, &is_exact)) return SUCCESS;
    if (condition->letter == 'r' || condition->letter == 'P')
        return failure(
            err, ERROR_INVALID,
            "--%s %.80s: a name of whole segments is expected, such as acme/models/digits, without tag and digest; a name of another form needs --key",
            condition->name, value);
    if (condition->letter != 'a') return SUCCESS;
    return failure(
        err, ERROR_INVALID,
        "--actor %.80s: names are sealed in the log, so the key has the actor's pseudonym: `sijil audit actors` shows it", value);
}

static struct result refuse(struct invocation *invocation, struct error *err)
{
    const char *key = invocation_option(invocation, 'k');
    char provable[AUDIT_KEY_SIZE];
    bool is_exact = false, is_any = key != NULL;

    if (key != NULL) advise(invocation, key);
    for (size_t i = 0; i < AUDIT_CONDITIONS; i++) {
        const char *value = value_of(invocation, &audit_conditions[i]);
        if (value == NULL || !leaf_key_of_condition(audit_conditions[i].name, value, provable, &is_exact)) continue;
        advise(invocation, provable);
        is_any = true;
    }
    if (is_any)
        return failure(
            err, ERROR_INVALID,
            "completeness can't be proven of these conditions: events are numbered under single keys. An export of one of the keys below has every "
            "event that meets them: export it, and select from it");
    return failure(
        err, ERROR_INVALID,
        "completeness can't be proven of these conditions: events are numbered under organisation, project, name, actor's pseudonym, and denied or "
        "failed. Export the key org: of each organisation, and select from it; or search without a proof");
}

struct result audit_export_key(struct invocation *invocation, char key_out[AUDIT_KEY_SIZE], struct error *err)
{
    const char *key = invocation_option(invocation, 'k');
    const size_t count = audit_export_conditions(invocation);
    bool is_exact = false;

    if (key != NULL) (void)snprintf(key_out, AUDIT_KEY_SIZE, "%s", key);
    if (key != NULL && count == 0) return SUCCESS;
    for (size_t i = 0; i < AUDIT_CONDITIONS; i++) {
        const char *value = value_of(invocation, &audit_conditions[i]);
        if (value == NULL) continue;
        TRY(check_value(&audit_conditions[i], value, err));
        if (key == NULL && count == 1 && leaf_key_of_condition(audit_conditions[i].name, value, key_out, &is_exact) && is_exact)
            return SUCCESS;
    }
    return refuse(invocation, err);
}

void audit_export_tell_empty(const struct invocation *invocation, const char *key)
{
    if (audit_export_conditions(invocation) == 0) return;
    (void)fprintf(
        stderr,
        "NO EVENT of this range stands under %s. Does this name exist? A name that is spelt wrong has no events, either: the file proves nothing about "
        "another one.\n",
        key);
}
