#include "policy/decider/pair_facts_priv.h"

#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "policy/compiled_priv.h"
#include "policy/decider/metrics.h"

void pair_facts_begin(struct pair_facts *facts, enum action action)
{
    facts->action = action;
    facts->knows_digest = facts->is_too_large = false;
    facts->refused_count = 0;
    buffer_clear(&facts->entries);
}

void pair_facts_refuse(struct pair_facts *facts, const char *rule)
{
    assert(facts->refused_count < PAIR_FACTS_REFUSED);
    facts->refused[facts->refused_count++] = rule;
}

/* Of facts that exceed the limit only is_too_large is recorded; the decision is still made, because the label of an organisation with many projects has such facts. It is counted, and makes an alarm. */
static struct result bounded(struct pair_facts *facts, struct result result, const struct error *err)
{
    if (result.ok || err->kind != ERROR_LIMIT) return result;
    facts->is_too_large = true;
    return SUCCESS;
}

static struct result write_label(struct buffer *text, const struct label *label, struct error *err)
{
    return label == NULL ? buffer_add_text(text, "null", err) : label_write(text, label, err);
}

static struct result open_entry(struct buffer *text, const struct facts_entry *entry, struct error *err)
{
    if (text->length > 0) TRY(buffer_add_u8(text, ',', err));
    TRY(buffer_add_u8(text, '{', err));
    if (entry->has_before) {
        TRY(buffer_add_text(text, "\"before\":", err));
        TRY(write_label(text, entry->before, err));
        TRY(buffer_add_u8(text, ',', err));
    }
    TRY(buffer_add_text(text, "\"label\":", err));
    TRY(write_label(text, entry->label, err));
    return buffer_add_text(text, ",\"operations\":[", err);
}

struct result pair_facts_open_entry(struct pair_facts *facts, const struct facts_entry *entry, struct error *err)
{
    facts->spent_count = facts->used_count = facts->told_count = 0;
    return bounded(facts, open_entry(&facts->entries, entry, err), err);
}

static struct result add_operation(struct buffer *text, const struct policy_facts *asked, struct error *err)
{
    const bool is_first = text->length > 0 && text->data[text->length - 1] == '[';

    TRY(buffer_format(text, err, "%s{\"op\":\"%s\",\"target\":", is_first ? "" : ",", policy_operation_name(asked->op)));
    TRY(buffer_add_text(text, policy_target_canonical(asked->target), err));
    TRY(buffer_add_text(text, ",\"target_id\":", err));
    TRY(json_write_string(text, bytes_of_text(asked->target_id), err));
    return buffer_add_u8(text, '}', err);
}

struct result pair_facts_operation(struct pair_facts *facts, const struct policy_facts *asked, struct error *err)
{
    return bounded(facts, add_operation(&facts->entries, asked, err), err);
}

static bool is_listed(const struct policy_exception *const *list, size_t count, const struct policy_exception *exception)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == exception) return true;
    return false;
}

void pair_facts_spent(struct pair_facts *facts, const struct policy_exception *exception)
{
    if (is_listed(facts->spent, facts->spent_count, exception)) return;
    assert(facts->spent_count < POLICY_LIST_MAX); /* a set has no more */
    facts->spent[facts->spent_count++] = exception;
}

struct result pair_facts_used(struct pair_facts *facts, const struct policy_exception *exception, struct error *err)
{
    if (is_listed(facts->used, facts->used_count, exception)) return SUCCESS;
    if (facts->used_count == PAIR_FACTS_USED)
        return failure(err, ERROR_LIMIT, "a request may use at most %d exceptions of policies", PAIR_FACTS_USED);
    facts->used[facts->used_count++] = exception;
    return SUCCESS;
}

static struct result insert_told(struct pair_facts *facts, const char *name, struct error *err)
{
    size_t at = 0;

    while (at < facts->told_count && strcmp(facts->told[at], name) < 0) at++;
    if (at < facts->told_count && strcmp(facts->told[at], name) == 0) return SUCCESS;
    if (facts->told_count == FACTS_TOLD_MAX)
        return failure(err, ERROR_LIMIT, "policies want more than %d told of one name", FACTS_TOLD_MAX);
    memmove(&facts->told[at + 1], &facts->told[at], (facts->told_count++ - at) * sizeof facts->told[0]);
    facts->told[at] = name;
    return SUCCESS;
}

struct result pair_facts_tell(struct pair_facts *facts, const struct policy_decision *decision, struct error *err)
{
    for (size_t i = 0; i < policy_decision_told_count(decision); i++)
        TRY(bounded(facts, insert_told(facts, policy_decision_told(decision, i), err), err));
    return SUCCESS;
}

static struct result write_key(struct buffer *text, const struct policy_exception *exception, struct error *err)
{
    char hex[2 * SHA256_SIZE + 1];

    text_hex(exception->key, sizeof exception->key, hex);
    return buffer_format(text, err, "\"sha256:%s\"", hex);
}

static struct result write_spent(struct buffer *text, const struct pair_facts *facts, struct error *err)
{
    if (facts->spent_count == 0) return SUCCESS;
    TRY(buffer_add_text(text, ",\"spent\":[", err));
    for (size_t i = 0; i < facts->spent_count; i++) {
        if (i > 0) TRY(buffer_add_u8(text, ',', err));
        TRY(write_key(text, facts->spent[i], err));
    }
    return buffer_add_u8(text, ']', err);
}

static struct result write_told(struct buffer *text, const struct pair_facts *facts, struct error *err)
{
    if (facts->told_count == 0) return SUCCESS;
    TRY(buffer_add_text(text, ",\"told\":[", err));
    for (size_t i = 0; i < facts->told_count; i++) {
        if (i > 0) TRY(buffer_add_u8(text, ',', err));
        TRY(json_write_string(text, bytes_of_text(facts->told[i]), err));
    }
    return buffer_add_u8(text, ']', err);
}

static struct result write_used(struct buffer *text, const struct pair_facts *facts, struct error *err)
{
    if (facts->used_count == 0) return SUCCESS;
    TRY(buffer_add_text(text, ",\"used\":[", err));
    for (size_t i = 0; i < facts->used_count; i++) {
        TRY(buffer_format(text, err, "%s{\"evidence\":", i > 0 ? "," : ""));
        TRY(json_write_canonical(text, facts->used[i]->evidence, err));
        TRY(buffer_add_text(text, ",\"exception\":", err));
        TRY(write_key(text, facts->used[i], err));
        TRY(buffer_format(text, err, ",\"id\":\"%s\"}", facts->used[i]->id)); /* an identifier */
    }
    return buffer_add_u8(text, ']', err);
}

static struct result close_entry(struct pair_facts *facts, const struct facts_entry *entry, struct error *err)
{
    struct buffer *text = &facts->entries;
    char project[UUID_TEXT_SIZE];

    uuid_format(&entry->project, project);
    TRY(buffer_format(text, err, "],\"project\":\"%s\"", project));
    if (entry->restrictions != NULL) {
        TRY(buffer_add_text(text, ",\"restrictions\":", err));
        TRY(buffer_add_text(text, entry->restrictions, err));
    }
    if (entry->scope != NULL) {
        TRY(buffer_add_text(text, ",\"scope\":", err));
        TRY(json_write_string(text, bytes_of_text(entry->scope), err));
    }
    TRY(write_spent(text, facts, err));
    TRY(write_told(text, facts, err));
    TRY(write_used(text, facts, err));
    return buffer_add_u8(text, '}', err);
}

struct result pair_facts_close_entry(struct pair_facts *facts, const struct facts_entry *entry, struct error *err)
{
    return bounded(facts, close_entry(facts, entry, err), err);
}

struct result pair_facts_write(const struct pair_facts *facts, struct buffer *text, struct error *err)
{
    TRY(buffer_format(text, err, "{\"action\":\"%s\",\"digest\":%s,\"judged\":[", action_name(facts->action),
                      facts->knows_digest ? "true" : "false"));
    if (facts->is_too_large) metric_add(&policy_metrics_rows[POLICY_METRIC_FACTS], 1);
    else TRY(buffer_add_text(text, buffer_text(&facts->entries), err));
    TRY(buffer_format(text, err, "],%s\"refused\":[", facts->is_too_large ? "\"omitted\":true," : ""));
    for (size_t i = 0; i < facts->refused_count; i++)
        TRY(buffer_format(text, err, "%s\"%s\"", i > 0 ? "," : "", facts->refused[i]));
    return buffer_add_text(text, "],\"v\":1}", err);
}

bool pair_facts_event_says(const char *name)
{
    for (const char *at = name; *at != '\0'; at++)
        if (*at < 0x20 || *at >= 0x7f || strchr("\"\\#", *at) != NULL) return false;
    return true;
}
