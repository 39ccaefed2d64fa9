#include "audit/format/leaf_glance.h"
#include "audit/format/leaf_quick_priv.h"

#include <string.h>

#include "base/text.h"

/* The text that is left. Once something else came than was expected, `failed` stays set. */
struct scan {
    const uint8_t *at, *end;
    bool failed;
};

static bool is_next(const struct scan *scan, const char *literal)
{
    const size_t length = strlen(literal);

    return !scan->failed && (size_t)(scan->end - scan->at) >= length && memcmp(scan->at, literal, length) == 0;
}

static bool take_if(struct scan *scan, const char *literal)
{
    if (!is_next(scan, literal)) return false;
    scan->at += strlen(literal);
    return true;
}

static void expect(struct scan *scan, const char *literal)
{
    if (!take_if(scan, literal)) scan->failed = true;
}

/* Up to the next quote; empty and failed unless its bytes need no escape. */
static struct bytes take_quoted(struct scan *scan)
{
    expect(scan, "\"");
    const uint8_t *begin = scan->at, *at = scan->at;
    if (scan->failed) return (struct bytes){0};
    while (at < scan->end && *at >= 0x20 && *at < 0x7f && *at != '"' && *at != '\\') at++;
    if (at == scan->end || *at != '"') {
        scan->failed = true;
        return (struct bytes){0};
    }
    scan->at = at + 1;
    return (struct bytes){begin, (size_t)(at - begin)};
}

static void take_text(struct scan *scan, char *destination, size_t room)
{
    const struct bytes text = take_quoted(scan);

    if (scan->failed || text.length >= room) {
        scan->failed = true;
        return;
    }
    if (text.length > 0) memcpy(destination, text.data, text.length);
    destination[text.length] = '\0';
}

static void take_hex(struct scan *scan, uint8_t *destination, size_t length)
{
    const struct bytes text = take_quoted(scan);

    if (scan->failed || !text_from_hex(text, destination, length)) scan->failed = true;
}

static uint64_t take_integer(struct scan *scan, uint64_t most)
{
    const uint8_t *begin = scan->at;
    uint64_t value = 0;

    while (!scan->failed && scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9' && value <= most)
        value = value * 10 + (uint64_t)(*scan->at++ - '0');
    const bool has_zero_before = scan->at - begin > 1 && *begin == '0';
    if (scan->at == begin || has_zero_before || value > most) scan->failed = true;
    return scan->failed ? 0 : value;
}

static void take_others(struct scan *scan, struct leaf *leaf)
{
    if (!take_if(scan, ",\"also\":[")) return;
    do {
        if (leaf->target_count == LEAF_TARGETS_MAX) {
            scan->failed = true;
            return;
        }
        struct leaf_target *target = &leaf->targets[leaf->target_count++];
        expect(scan, "[");
        take_text(scan, target->action, sizeof target->action);
        expect(scan, ",");
        take_text(scan, target->resource, sizeof target->resource);
        expect(scan, ",");
        take_text(scan, target->region, sizeof target->region);
        expect(scan, "]");
    } while (take_if(scan, ","));
    expect(scan, "]");
}

static void take_facts(struct scan *scan, uint8_t facts[LEAF_TARGETS_MAX][LEAF_FACTS_DIGEST], size_t *count)
{
    if (!take_if(scan, ",\"facts\":[")) return;
    do {
        if (*count == LEAF_TARGETS_MAX) {
            scan->failed = true;
            return;
        }
        take_hex(scan, facts[(*count)++], LEAF_FACTS_DIGEST);
    } while (take_if(scan, ","));
    expect(scan, "]");
}

#define MEMBERS_MAX LEAF_KEYS_MAX

/* The names of the keys follow from members that come later, so they are compared at the end. */
struct seen_keys {
    size_t count;
    struct bytes names[MEMBERS_MAX];
    uint64_t ordinals[MEMBERS_MAX];
};

static void take_keys(struct scan *scan, struct seen_keys *seen)
{
    expect(scan, ",\"k\":{");
    if (take_if(scan, "}")) return;
    do {
        if (seen->count == MEMBERS_MAX) {
            scan->failed = true;
            return;
        }
        seen->names[seen->count] = take_quoted(scan);
        expect(scan, ":");
        seen->ordinals[seen->count++] = take_integer(scan, LEAF_INTEGER_MAX);
    } while (take_if(scan, ","));
    expect(scan, "}");
}

static bool keys_follow(const struct seen_keys *seen, struct leaf *leaf)
{
    leaf_fill_keys(leaf);
    if (leaf->key_count != seen->count) return false;
    for (size_t i = 0; i < seen->count; i++) {
        if (!bytes_equal(seen->names[i], bytes_of_text(leaf->keys[i].name)) || seen->ordinals[i] == 0) return false;
        leaf->keys[i].ordinal = seen->ordinals[i];
    }
    return true;
}

static void take_source(struct scan *scan, struct leaf_source *source)
{
    expect(scan, ",\"src\":[");
    take_text(scan, source->instance, sizeof source->instance);
    expect(scan, ",");
    source->boot = take_integer(scan, LEAF_INTEGER_MAX);
    expect(scan, ",");
    source->number = take_integer(scan, LEAF_INTEGER_MAX);
    expect(scan, "]");
}

/* The members of `why` that are given, each with a comma before it unless it is the first. */
static bool take_name(struct scan *scan, const char *name, bool *is_first)
{
    const struct scan before = *scan;

    if (!*is_first && !take_if(scan, ",")) return false;
    if (!take_if(scan, name)) {
        *scan = before;
        return false;
    }
    *is_first = false;
    return true;
}

static void take_some_text(struct scan *scan, char *destination, size_t room)
{
    take_text(scan, destination, room);
    if (destination[0] == '\0') scan->failed = true;
}

static void take_rules(struct scan *scan, struct leaf_reason *reason)
{
    do {
        if (reason->rule_count == LEAF_RULES_MAX) {
            scan->failed = true;
            return;
        }
        take_text(scan, reason->rules[reason->rule_count], sizeof reason->rules[0]);
        reason->rule_count++;
    } while (take_if(scan, ","));
    expect(scan, "]");
}

static void take_reason(struct scan *scan, struct leaf_reason *reason)
{
    bool is_first = true;

    expect(scan, ",\"why\":{");
    if (take_name(scan, "\"at\":", &is_first)) {
        reason->has_decided = true;
        reason->decided_ms = take_integer(scan, LEAF_INTEGER_MAX);
    }
    if ((reason->has_bound = take_name(scan, "\"bound\":", &is_first))) reason->bound = take_integer(scan, LEAF_INTEGER_MAX);
    if ((reason->has_count = take_name(scan, "\"count\":", &is_first))) reason->count = take_integer(scan, LEAF_INTEGER_MAX);
    if (take_name(scan, "\"id\":", &is_first)) take_some_text(scan, reason->decision, sizeof reason->decision);
    if (take_name(scan, "\"note\":", &is_first)) take_some_text(scan, reason->note, sizeof reason->note);
    if ((reason->has_opened = take_name(scan, "\"opened\":", &is_first))) reason->opened = take_integer(scan, LEAF_INTEGER_MAX);
    if (take_name(scan, "\"policy\":", &is_first)) take_some_text(scan, reason->policy, sizeof reason->policy);
    if (take_name(scan, "\"rules\":[", &is_first)) take_rules(scan, reason);
    expect(scan, "}");
}

static void take_members(struct scan *scan, struct leaf *leaf, struct seen_keys *keys)
{
    struct leaf_target *target = &leaf->targets[0];

    expect(scan, "{\"act\":");
    take_text(scan, target->action, sizeof target->action);
    expect(scan, ",\"actor\":");
    take_text(scan, leaf->actor, sizeof leaf->actor);
    take_others(scan, leaf);
    expect(scan, ",\"cls\":");
    leaf->class_uid = (uint32_t)take_integer(scan, UINT32_MAX);
    take_facts(scan, leaf->facts, &leaf->facts_count);
    take_keys(scan, keys);
    expect(scan, ",\"out\":");
    take_text(scan, leaf->outcome, sizeof leaf->outcome);
    if ((leaf->has_payload = take_if(scan, ",\"pay\":"))) take_hex(scan, leaf->payload, sizeof leaf->payload);
    expect(scan, ",\"req\":");
    take_text(scan, leaf->request, sizeof leaf->request);
    expect(scan, ",\"res\":");
    take_text(scan, target->resource, sizeof target->resource);
    expect(scan, ",\"rgn\":");
    take_text(scan, target->region, sizeof target->region);
}

bool leaf_read_quick(struct bytes text, struct leaf *leaf_out)
{
    struct scan scan = {text.data, text.data + text.length, text.length == 0 || text.length > LEAF_MAX};
    struct seen_keys keys = {.count = 0};

    memset(leaf_out, 0, sizeof *leaf_out);
    leaf_out->target_count = 1;
    take_members(&scan, leaf_out, &keys);
    expect(&scan, ",\"seq\":");
    leaf_out->sequence = take_integer(&scan, LEAF_INTEGER_MAX);
    take_source(&scan, &leaf_out->source);
    expect(&scan, ",\"ts\":");
    leaf_out->time_ms = (int64_t)take_integer(&scan, LEAF_INTEGER_MAX);
    expect(&scan, ",\"v\":");
    leaf_out->version = (unsigned)take_integer(&scan, LEAF_VERSION);
    take_reason(&scan, &leaf_out->reason);
    expect(&scan, "}");
    if (scan.failed || scan.at != scan.end || leaf_out->version == 0) return false;
    const size_t facts = leaf_out->reason.has_decided && leaf_out->version > 1 ? leaf_out->target_count : 0;
    if (leaf_out->facts_count != facts || (leaf_out->reason.has_decided && facts == 0)) return false;
    return keys_follow(&keys, leaf_out);
}

/* ---- a glance ---- */

static struct bytes take_view(struct scan *scan, size_t most)
{
    const struct bytes text = take_quoted(scan);

    if (text.length > most) scan->failed = true;
    return text;
}

/* An action, its resource and, after it, the region. */
static void glance_at_others(struct scan *scan, struct leaf_glance *glance)
{
    if (!take_if(scan, ",\"also\":[")) return;
    do {
        const size_t at = glance->target_count++;
        if (at == LEAF_TARGETS_MAX) {
            scan->failed = true;
            return;
        }
        expect(scan, "[");
        glance->targets[at].action = take_view(scan, sizeof((struct leaf_target *)NULL)->action - 1);
        expect(scan, ",");
        glance->targets[at].resource = take_view(scan, LEAF_RESOURCE_MAX);
        expect(scan, ",");
        (void)take_quoted(scan);
        expect(scan, "]");
    } while (take_if(scan, ","));
    expect(scan, "]");
}

static void skip_member(struct scan *scan, const char *name)
{
    expect(scan, name);
    (void)take_quoted(scan);
}

static void glance_at_members(struct scan *scan, struct leaf_glance *glance)
{
    struct seen_keys keys = {.count = 0};

    expect(scan, "{\"act\":");
    glance->targets[0].action = take_view(scan, sizeof((struct leaf_target *)NULL)->action - 1);
    expect(scan, ",\"actor\":");
    glance->actor = take_view(scan, sizeof((struct leaf *)NULL)->actor - 1);
    glance_at_others(scan, glance);
    expect(scan, ",\"cls\":");
    (void)take_integer(scan, UINT32_MAX);
    take_facts(scan, glance->facts, &glance->facts_count);
    take_keys(scan, &keys);
    skip_member(scan, ",\"out\":");
    if (take_if(scan, ",\"pay\":")) (void)take_quoted(scan);
    skip_member(scan, ",\"req\":");
    expect(scan, ",\"res\":");
    glance->targets[0].resource = take_view(scan, LEAF_RESOURCE_MAX);
    skip_member(scan, ",\"rgn\":");
}

bool leaf_glance(struct bytes text, struct leaf_glance *glance_out)
{
    struct scan scan = {text.data, text.data + text.length, text.length == 0 || text.length > LEAF_MAX};
    struct leaf_source source;
    struct leaf_reason reason = {.rule_count = 0};

    glance_out->target_count = 1;
    glance_out->facts_count = 0;
    glance_at_members(&scan, glance_out);
    expect(&scan, ",\"seq\":");
    (void)take_integer(&scan, LEAF_INTEGER_MAX);
    take_source(&scan, &source);
    expect(&scan, ",\"ts\":");
    (void)take_integer(&scan, LEAF_INTEGER_MAX);
    expect(&scan, ",\"v\":");
    const uint64_t version = take_integer(&scan, LEAF_VERSION);
    take_reason(&scan, &reason);
    expect(&scan, "}");
    if (scan.failed || scan.at != scan.end || version == 0) return false;
    (void)text_copy(glance_out->policy, sizeof glance_out->policy, reason.policy);
    return glance_out->facts_count == (reason.has_decided ? glance_out->target_count : 0) && (version > 1 || !reason.has_decided);
}
