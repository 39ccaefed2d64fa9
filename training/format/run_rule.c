/* The trust rule that asked for a run: its document, and what its grants allow. */
#include <stdio.h>
#include <string.h>

#include "documents/format/trust_rule.h"
#include "training/format/artifacts.h"
#include "training/format/chain.h"
#include "training/format/run_keys.h"

#define SUBJECT_SIZE (DOCUMENT_SCOPE_SIZE + DOCUMENT_NAME_SIZE)

static bool is_subject(const struct document *document, const char *subject)
{
    char named[SUBJECT_SIZE];

    (void)snprintf(named, sizeof named, "%s:%s", document->scope, document->name);
    return document->kind == DOCUMENT_TRUST_RULE && strcmp(named, subject) == 0;
}

/* The highest version replaces all others, in whatever order they stand in the log: whoever adds an older one to the log again has no signature for that. */
static const struct run_key *newest_before(const struct run_keys *keys, const char *subject, uint64_t sequence)
{
    const struct run_key *found = NULL;

    for (size_t i = 0; i < keys->count && keys->each[i].sequence < sequence; i++)
        if (is_subject(keys->each[i].document, subject) &&
            (found == NULL || keys->each[i].document->version > found->document->version))
            found = &keys->each[i];
    return found;
}

/* "acme", "acme/models", a repository, or all below "acme/models/" and an asterisk. */
static bool covers(const char *on, const char *name)
{
    const size_t length = strlen(on);
    const bool is_pattern = length >= 2 && strcmp(on + length - 2, "/*") == 0;

    if (is_pattern) return strncmp(on, name, length - 1) == 0 && name[length - 1] != '\0';
    return run_scope_covers(on, name);
}

static bool may_train(const struct trust_rule *rule, const char *name)
{
    for (size_t i = 0; i < rule->grant_count; i++)
        if (strcmp(rule->grants[i].role, "trainer") == 0 && covers(rule->grants[i].on, name)) return true;
    return false;
}

static struct result check_grant(const struct trust_rule *rule, const char *name, struct error *err)
{
    if (may_train(rule, name)) return SUCCESS;
    return failure(err, ERROR_DENIED, "the trust rule that asked for the run has no grant of \"trainer\" on %.200s", name);
}

static struct result check_grants(const struct trust_rule *rule, const struct run_envelope *request, struct error *err)
{
    const json_t *spec = run_member(request, "spec"), *outputs = json_object_get(spec, "outputs");
    const struct run_artifacts artifacts = run_spec_artifacts(spec);

    TRY(check_grant(rule, run_text(request, "project"), err));
    for (size_t i = 0; i < artifacts.count; i++) TRY(check_grant(rule, json_text_of(artifacts.each[i].json, "repository"), err));
    for (size_t i = 0; i < json_array_size(outputs); i++)
        TRY(check_grant(rule, json_text_of(json_array_get(outputs, i), "repository"), err));
    return SUCCESS;
}

static bool is_in_force(const struct run_key *rule, int64_t time_ms)
{
    const struct document *document = rule->document;

    return rule->time_ms <= time_ms && document->effective_ms <= time_ms &&
           (document->expires_ms == 0 || time_ms < document->expires_ms);
}

struct result run_keys_rule(const struct run_keys *keys, const struct run_envelope *request, const struct run_use *use,
                            const struct run_key **rule_out, struct error *err)
{
    const char *subject = run_text(request, "claims.subject");
    const struct run_key *found = newest_before(keys, subject, use->sequence);
    struct trust_rule rule;

    if (found == NULL) return failure(err, ERROR_DENIED, "no document of the bundle is the trust rule %.200s", subject);
    if (found->document->is_withdrawn) return failure(err, ERROR_DENIED, "the trust rule %.200s was withdrawn before", subject);
    if (!is_in_force(found, use->time_ms)) return failure(err, ERROR_DENIED, "the trust rule %.200s was not in force", subject);
    if (!run_scope_covers(found->document->scope, use->project))
        return failure(err, ERROR_DENIED, "the trust rule %.160s is not for the project %.80s", subject, use->project);
    TRY(trust_rule_read(found->document, &rule, err));
    TRY(check_grants(&rule, request, err));
    *rule_out = found;
    return SUCCESS;
}
