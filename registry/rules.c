#include "registry/rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"

#define DAY_MS INT64_C(86400000)

static struct result read_pattern(const json_t *rule, const char *member, char destination[PATTERN_MAX + 1], struct error *err)
{
    const json_t *value = json_object_get(rule, member);
    const struct bytes text = {(const uint8_t *)json_string_value(value), json_string_length(value)};

    if (!json_is_string(value) || !pattern_is_valid(text))
        return failure(err, ERROR_INVALID, "%s of a rule is a pattern of 1 to %d letters of names, * and ?", member, PATTERN_MAX);
    memcpy(destination, text.data, text.length);
    destination[text.length] = '\0';
    return SUCCESS;
}

static struct result read_number(const json_t *rule, const char *member, int64_t least, int64_t most, int64_t *destination,
                                 struct error *err)
{
    const json_t *value = json_object_get(rule, member);

    *destination = RULES_NONE;
    if (value == NULL) return SUCCESS;
    if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > most)
        return failure(err, ERROR_INVALID, "%s is a whole number from %lld to %lld", member, (long long)least, (long long)most);
    *destination = json_integer_value(value);
    return SUCCESS;
}

static bool is_one_of(const char *word, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strcmp(word, *words) == 0) return true;
    return false;
}

static struct result check_members(json_t *object, const char *const *members, struct error *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object(object)) return failure(err, ERROR_INVALID, "the rules, and each of them, are JSON objects");
    json_object_foreach (object, key, value) {
        if (!is_one_of(key, members)) return failure(err, ERROR_INVALID, "rules have no member \"%.60s\"", key);
    }
    return SUCCESS;
}

static struct result read_retention(json_t *rule, struct retention_rule *destination, struct error *err)
{
    static const char *const members[] = {"repositories", "tags", "keep_last", "pushed_days", "pulled_days", NULL};

    TRY(check_members(rule, members, err));
    TRY(read_pattern(rule, "repositories", destination->repositories, err));
    TRY(read_pattern(rule, "tags", destination->tags, err));
    TRY(read_number(rule, "keep_last", 0, RULES_LAST_MAX, &destination->keep_last, err));
    TRY(read_number(rule, "pushed_days", 0, RULES_DAYS_MAX, &destination->pushed_days, err));
    return read_number(rule, "pulled_days", 0, RULES_DAYS_MAX, &destination->pulled_days, err);
}

static struct result read_immutable(json_t *rule, struct immutable_rule *destination, struct error *err)
{
    static const char *const members[] = {"repositories", "tags", NULL};

    TRY(check_members(rule, members, err));
    TRY(read_pattern(rule, "repositories", destination->repositories, err));
    return read_pattern(rule, "tags", destination->tags, err);
}

/* The number of rules in the list; 0 if there is no list. */
static struct result list_size(const json_t *document, const char *member, size_t *size_out, struct error *err)
{
    const json_t *list = json_object_get(document, member);

    if (list != NULL && !json_is_array(list)) return failure(err, ERROR_INVALID, "%s is a list of rules", member);
    if (json_array_size(list) > RULES_MAX) return failure(err, ERROR_LIMIT, "%s has more than %d rules", member, RULES_MAX);
    *size_out = json_array_size(list);
    return SUCCESS;
}

static struct result read_document(json_t *document, struct rules *rules, struct error *err)
{
    static const char *const members[] = {"retention", "untagged_days", "immutable", NULL};

    TRY(check_members(document, members, err));
    TRY(read_number(document, "untagged_days", 0, RULES_DAYS_MAX, &rules->untagged_days, err));
    TRY(list_size(document, "retention", &rules->retention_count, err));
    TRY(list_size(document, "immutable", &rules->immutable_count, err));
    for (size_t i = 0; i < rules->retention_count; i++)
        TRY(read_retention(json_array_get(json_object_get(document, "retention"), i), &rules->retention[i], err));
    for (size_t i = 0; i < rules->immutable_count; i++)
        TRY(read_immutable(json_array_get(json_object_get(document, "immutable"), i), &rules->immutable[i], err));
    return SUCCESS;
}

struct result rules_read(struct bytes text, struct rules **rules_out, struct error *err)
{
    OWNED_JSON document = NULL;

    TRY(json_read(text, RULES_TEXT_MAX, &document, err));
    OWNED(rules) *rules = memory_zeroed(1, sizeof *rules);
    if (rules == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for rules");
    TRY(read_document(document, rules, err));
    *rules_out = GIVE(rules);
    return SUCCESS;
}

void rules_free(struct rules *rules)
{
    free(rules);
}

bool rules_retain(const struct rules *rules, const char *repository)
{
    for (size_t i = 0; i < rules->retention_count; i++)
        if (pattern_fits(rules->retention[i].repositories, repository)) return true;
    return false;
}

bool rules_make_immutable(const struct rules *rules, const char *repository, const char *tag)
{
    for (size_t i = 0; i < rules->immutable_count; i++)
        if (pattern_fits(rules->immutable[i].repositories, repository) && pattern_fits(rules->immutable[i].tags, tag))
            return true;
    return false;
}

static bool is_recent(int64_t when_ms, int64_t days, int64_t now_ms)
{
    return days != RULES_NONE && when_ms > 0 && now_ms - when_ms <= days * DAY_MS;
}

/* `rank`: how many tags that match the rule were pushed later. */
static bool rule_keeps(const struct retention_rule *rule, const struct tag_fact *tag, int64_t rank, int64_t now_ms)
{
    if (rule->keep_last == RULES_NONE && rule->pushed_days == RULES_NONE && rule->pulled_days == RULES_NONE) return true;
    return (rule->keep_last != RULES_NONE && rank < rule->keep_last) || is_recent(tag->pushed_ms, rule->pushed_days, now_ms) ||
           is_recent(tag->pulled_ms, rule->pulled_days, now_ms);
}

static void apply(const struct retention_rule *rule, const struct tag_facts *facts, bool *is_kept)
{
    int64_t rank = 0;

    if (!pattern_fits(rule->repositories, facts->repository)) return;
    for (size_t i = 0; i < facts->count; i++) {
        const struct tag_fact *tag = &facts->tags[i];
        if (tag->is_attachment || !pattern_fits(rule->tags, tag->name)) continue;
        if (rule_keeps(rule, tag, rank++, facts->now_ms)) is_kept[i] = true;
    }
}

struct by_digest {
    const char *digest;
    size_t destination;
};

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct by_digest *)a)->digest, ((const struct by_digest *)b)->digest);
}

/* If one tag of a digest is kept, all tags of the digest are kept. */
static void join(const struct tag_facts *facts, struct by_digest *order, bool *is_kept)
{
    for (size_t i = 0; i < facts->count; i++) order[i] = (struct by_digest){facts->tags[i].digest, i};
    qsort(order, facts->count, sizeof *order, compare);
    for (size_t from = 0, until = 0; from < facts->count; from = until) {
        bool any = false;
        for (until = from; until < facts->count && strcmp(order[until].digest, order[from].digest) == 0; until++)
            any = any || is_kept[order[until].destination];
        for (size_t i = from; i < until; i++) is_kept[order[i].destination] = any;
    }
}

struct result rules_evaluate(const struct rules *rules, const struct tag_facts *facts, bool *is_kept_out, struct error *err)
{
    struct by_digest *order = NULL;

    if (!rules_retain(rules, facts->repository)) {
        for (size_t i = 0; i < facts->count; i++) is_kept_out[i] = true;
        return SUCCESS;
    }
    order = memory_zeroed(facts->count + 1, sizeof *order);
    if (order == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the rules of %zu tags", facts->count);
    for (size_t i = 0; i < facts->count; i++) {
        const struct tag_fact *tag = &facts->tags[i];
        is_kept_out[i] = tag->is_attachment || rules_make_immutable(rules, facts->repository, tag->name);
    }
    for (size_t i = 0; i < rules->retention_count; i++) apply(&rules->retention[i], facts, is_kept_out);
    join(facts, order, is_kept_out);
    free(order);
    return SUCCESS;
}
