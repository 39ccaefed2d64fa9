#include "detection/rules.h"

#include <string.h>

struct gathering {
    int64_t now_ms;
    struct detection_rules rules;
    uint64_t since[DETECTION_RULES_MAX];
};

static size_t place_of(const struct detection_rules *rules, const char *name)
{
    size_t i = 0;

    while (i < rules->count && strcmp(rules->each[i].name, name) != 0) i++;
    return i;
}

static struct result gather(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct gathering *gathering = context;
    struct detection_rule rule;

    if (!document_is_in_force(pinned->document, gathering->now_ms)) return SUCCESS;
    TRY(detection_rule_read(pinned->document, &rule, err));
    const size_t place = place_of(&gathering->rules, rule.name);
    if (place == DETECTION_RULES_MAX)
        return failure(err, ERROR_LIMIT, "more than %d detection rules are in force", DETECTION_RULES_MAX);
    if (place == gathering->rules.count) gathering->rules.count++;
    gathering->rules.each[place] = rule;
    gathering->since[place] = pinned->sequence;
    return SUCCESS;
}

struct result detection_rules_of(struct document_view *view, int64_t now_ms, struct detection_rules *all_out, uint64_t *since_out,
                                 struct error *err)
{
    struct gathering gathering = {.now_ms = now_ms};
    const struct document_visit visit = {gather, &gathering};

    for (enum detector detector = 0; detector < DETECTOR_COUNT; detector++)
        gathering.rules.each[gathering.rules.count++] = detection_rule_default(detector);
    TRY(document_view_read(view, DOCUMENT_DETECTION_RULE, &visit, err));
    *all_out = gathering.rules;
    if (since_out != NULL) memcpy(since_out, gathering.since, sizeof gathering.since);
    return SUCCESS;
}

struct detection_rules detection_rules_on(const struct detection_rules *all)
{
    struct detection_rules on = {.count = 0};

    for (size_t i = 0; i < all->count; i++)
        if (!all->each[i].is_off) on.each[on.count++] = all->each[i];
    return on;
}
