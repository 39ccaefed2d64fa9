#include "policy/decider/pair_facts_priv.h"

#include <assert.h>
#include <string.h>

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

/* Of facts that exceed the limit only is_too_large is recorded; the decision is still made. */
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

static struct result close_entry(struct buffer *text, const struct facts_entry *entry, struct error *err)
{
    char project[UUID_TEXT_SIZE];

    uuid_format(&entry->project, project);
    TRY(buffer_format(text, err, "],\"project\":\"%s\"", project));
    if (entry->scope != NULL) {
        TRY(buffer_add_text(text, ",\"scope\":", err));
        TRY(json_write_string(text, bytes_of_text(entry->scope), err));
    }
    return buffer_add_u8(text, '}', err);
}

struct result pair_facts_close_entry(struct pair_facts *facts, const struct facts_entry *entry, struct error *err)
{
    return bounded(facts, close_entry(&facts->entries, entry, err), err);
}

struct result pair_facts_write(const struct pair_facts *facts, struct buffer *text, struct error *err)
{
    TRY(buffer_format(text, err, "{\"action\":\"%s\",\"digest\":%s,\"judged\":[", action_name(facts->action),
                      facts->knows_digest ? "true" : "false"));
    if (!facts->is_too_large) TRY(buffer_add_text(text, buffer_text(&facts->entries), err));
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
