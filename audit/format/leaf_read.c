#include "audit/format/leaf_quick_priv.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"

static struct result not_a_leaf(struct error *err, const char *member)
{
    return failure(err, ERROR_INVALID, "not an event of the log: its member \"%s\" is missing or not as it must be", member);
}

/* Takes a text of at most `room` - 1 bytes without control characters. */
static bool copy_text(const json_t *value, char *destination, size_t room)
{
    const size_t length = json_string_length(value);

    if (!json_is_string(value) || length >= room) return false;
    const char *text = json_string_value(value);
    if (!leaf_text_is_valid((struct bytes){(const uint8_t *)text, length})) return false;
    memcpy(destination, text, length);
    destination[length] = '\0';
    return true;
}

static bool copy_integer(const json_t *value, int64_t maximum, uint64_t *value_out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > maximum) return false;
    *value_out = (uint64_t)json_integer_value(value);
    return true;
}

static struct result read_source(const json_t *value, struct leaf_source *source, struct error *err)
{
    if (!json_is_array(value) || json_array_size(value) != 3 ||
        !copy_text(json_array_get(value, 0), source->instance, sizeof source->instance) ||
        !copy_integer(json_array_get(value, 1), LEAF_INTEGER_MAX, &source->boot) ||
        !copy_integer(json_array_get(value, 2), LEAF_INTEGER_MAX, &source->number))
        return not_a_leaf(err, "src");
    return SUCCESS;
}

static struct result read_others(const json_t *value, struct leaf *leaf, struct error *err)
{
    const size_t count = json_array_size(value);

    if (value == NULL) return SUCCESS;
    if (count == 0 || count > LEAF_TARGETS_MAX - 1) return not_a_leaf(err, "also");
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(value, i);
        struct leaf_target *target = &leaf->targets[leaf->target_count++];
        if (json_array_size(row) != 3 || !copy_text(json_array_get(row, 0), target->action, sizeof target->action) ||
            !copy_text(json_array_get(row, 1), target->resource, sizeof target->resource) ||
            !copy_text(json_array_get(row, 2), target->region, sizeof target->region))
            return not_a_leaf(err, "also");
    }
    return SUCCESS;
}

static struct result read_rules(const json_t *value, struct leaf_reason *reason, struct error *err)
{
    const size_t count = json_array_size(value);

    if (value == NULL) return SUCCESS;
    if (count == 0 || count > LEAF_RULES_MAX) return not_a_leaf(err, "why.rules");
    for (size_t i = 0; i < count; i++)
        if (!copy_text(json_array_get(value, i), reason->rules[i], sizeof reason->rules[i])) return not_a_leaf(err, "why.rules");
    reason->rule_count = count;
    return SUCCESS;
}

/* The writer leaves out an empty text of `why`, so an empty text in a leaf is not canonical. */
static bool read_optional_text(const json_t *object, const char *name, char *destination, size_t room, size_t *seen)
{
    const json_t *value = json_object_get(object, name);

    if (value == NULL) return true;
    ++*seen;
    return copy_text(value, destination, room) && destination[0] != '\0';
}

static bool read_optional_integer(const json_t *object, const char *name, bool *has, uint64_t *destination, size_t *seen)
{
    const json_t *value = json_object_get(object, name);

    if (value == NULL) return true;
    ++*seen;
    *has = true;
    return copy_integer(value, LEAF_INTEGER_MAX, destination);
}

static struct result read_reason(const json_t *why, struct leaf_reason *reason, struct error *err)
{
    size_t seen = 0;

    if (!json_is_object(why) || !read_optional_text(why, "id", reason->decision, sizeof reason->decision, &seen) ||
        !read_optional_text(why, "policy", reason->policy, sizeof reason->policy, &seen) ||
        !read_optional_integer(why, "at", &reason->has_decided, &reason->decided_ms, &seen) ||
        !read_optional_text(why, "note", reason->note, sizeof reason->note, &seen) ||
        !read_optional_integer(why, "bound", &reason->has_bound, &reason->bound, &seen) ||
        !read_optional_integer(why, "count", &reason->has_count, &reason->count, &seen) ||
        !read_optional_integer(why, "opened", &reason->has_opened, &reason->opened, &seen))
        return not_a_leaf(err, "why");
    TRY(read_rules(json_object_get(why, "rules"), reason, err));
    if (json_object_size(why) != seen + (reason->rule_count > 0 ? 1 : 0)) return not_a_leaf(err, "why");
    return SUCCESS;
}

/* The names must follow from the other members: a search by key relies on it. */
static struct result read_keys(const json_t *object, struct leaf *leaf, struct error *err)
{
    leaf_fill_keys(leaf);
    if (!json_is_object(object) || json_object_size(object) != leaf->key_count) return not_a_leaf(err, "k");
    for (size_t i = 0; i < leaf->key_count; i++)
        if (!copy_integer(json_object_get(object, leaf->keys[i].name), LEAF_INTEGER_MAX, &leaf->keys[i].ordinal) ||
            leaf->keys[i].ordinal == 0)
            return not_a_leaf(err, "k");
    return SUCCESS;
}

static struct result read_payload(const json_t *object, struct leaf *leaf, struct error *err)
{
    const json_t *value = json_object_get(object, "pay");

    leaf->has_payload = value != NULL;
    if (value == NULL) return SUCCESS;
    if (json_typeof(value) != JSON_STRING ||
        !text_from_hex(bytes_of_text(json_string_value(value)), leaf->payload, sizeof leaf->payload))
        return not_a_leaf(err, "pay");
    return SUCCESS;
}

/* A decided event has a time, and facts for each target. An event without a decision has neither, and version 1 has neither. */
static struct result read_facts(const json_t *value, struct leaf *leaf, struct error *err)
{
    const size_t count = json_array_size(value);

    if (!leaf->reason.has_decided && value == NULL) return SUCCESS;
    if (leaf->version == 1 || !leaf->reason.has_decided || count != leaf->target_count) return not_a_leaf(err, "facts");
    for (size_t i = 0; i < count; i++) {
        const json_t *digest = json_array_get(value, i);
        if (!json_is_string(digest) ||
            !text_from_hex(bytes_of_text(json_string_value(digest)), leaf->facts[i], sizeof leaf->facts[i]))
            return not_a_leaf(err, "facts");
    }
    leaf->facts_count = count;
    return SUCCESS;
}

static struct result read_texts(const json_t *object, struct leaf *leaf, struct error *err)
{
    struct leaf_target *target = &leaf->targets[0];
    const struct {
        const char *name;
        char *destination;
        size_t room;
    } texts[] = {
        {"act", target->action, sizeof target->action},     {"actor", leaf->actor, sizeof leaf->actor},
        {"out", leaf->outcome, sizeof leaf->outcome},       {"req", leaf->request, sizeof leaf->request},
        {"res", target->resource, sizeof target->resource}, {"rgn", target->region, sizeof target->region},
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!copy_text(json_object_get(object, texts[i].name), texts[i].destination, texts[i].room))
            return not_a_leaf(err, texts[i].name);
    return SUCCESS;
}

static struct result read_integers(const json_t *object, struct leaf *leaf, struct error *err)
{
    uint64_t version = 0, time_ms = 0, class_uid = 0;

    if (!copy_integer(json_object_get(object, "v"), LEAF_VERSION, &version) || version == 0) return not_a_leaf(err, "v");
    if (!copy_integer(json_object_get(object, "seq"), LEAF_INTEGER_MAX, &leaf->sequence)) return not_a_leaf(err, "seq");
    if (!copy_integer(json_object_get(object, "ts"), LEAF_INTEGER_MAX, &time_ms)) return not_a_leaf(err, "ts");
    if (!copy_integer(json_object_get(object, "cls"), UINT32_MAX, &class_uid)) return not_a_leaf(err, "cls");
    leaf->version = (unsigned)version;
    leaf->time_ms = (int64_t)time_ms;
    leaf->class_uid = (uint32_t)class_uid;
    return SUCCESS;
}

#define MEMBERS ((size_t)13) /* of every leaf; "also", "facts" and "pay" are optional */

static struct result read_members(const json_t *object, struct leaf *leaf, struct error *err)
{
    leaf->target_count = 1;
    TRY(read_integers(object, leaf, err));
    TRY(read_texts(object, leaf, err));
    TRY(read_source(json_object_get(object, "src"), &leaf->source, err));
    TRY(read_others(json_object_get(object, "also"), leaf, err));
    TRY(read_payload(object, leaf, err));
    TRY(read_reason(json_object_get(object, "why"), &leaf->reason, err));
    TRY(read_facts(json_object_get(object, "facts"), leaf, err));
    TRY(read_keys(json_object_get(object, "k"), leaf, err));
    const size_t expected =
        MEMBERS + (leaf->target_count > 1 ? 1 : 0) + (leaf->facts_count > 0 ? 1 : 0) + (leaf->has_payload ? 1 : 0);
    if (json_object_size(object) != expected)
        return failure(err, ERROR_INVALID, "not an event of the log: it has members that version %u does not know",
                       leaf->version);
    return SUCCESS;
}

/* Every member has been read, so writing the leaf again yields its one canonical spelling. That is much cheaper than sorting
 * JSON. */
static struct result require_canonical(struct bytes text, const struct leaf *leaf, struct error *err)
{
    struct buffer OWNED_BUFFER canonical = BUFFER(2 * LEAF_MAX);
    uint8_t *destination = NULL;

    TRY(buffer_reserve(&canonical, text.length, &destination, err));
    TRY(leaf_write(leaf, &canonical, err));
    if (!bytes_equal(text, buffer_bytes(&canonical)))
        return failure(err, ERROR_INVALID, "not an event of the log: its JSON is not in the canonical spelling");
    return SUCCESS;
}

struct result leaf_read_any(struct bytes text, struct leaf *leaf_out, struct error *err)
{
    OWNED_JSON object = NULL;
    struct leaf leaf = {0};

    TRY(json_read(text, LEAF_MAX, &object, err));
    if (json_typeof(object) != JSON_OBJECT) return failure(err, ERROR_INVALID, "not an event of the log: it is no JSON object");
    TRY(read_members(object, &leaf, err));
    TRY(require_canonical(text, &leaf, err));
    *leaf_out = leaf;
    return SUCCESS;
}

struct result leaf_is_later(struct bytes text, bool *is_later_out, struct error *err)
{
    OWNED_JSON object = NULL;
    uint64_t version = 0;
    struct error why;

    *is_later_out = false;
    if (!json_read(text, LEAF_MAX, &object, &why).ok)
        return why.kind == ERROR_NO_MEMORY ? failure(err, why.kind, "%s", why.message) : SUCCESS;
    *is_later_out = json_typeof(object) == JSON_OBJECT &&
                    copy_integer(json_object_get(object, "v"), LEAF_INTEGER_MAX, &version) && version > LEAF_VERSION;
    return SUCCESS;
}

struct result leaf_read(struct bytes text, struct leaf *leaf_out, struct error *err)
{
    struct leaf leaf;

    if (!leaf_read_quick(text, &leaf)) return leaf_read_any(text, leaf_out, err);
    *leaf_out = leaf;
    return SUCCESS;
}
