#include "audit/format/leaf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "audit/format/export_terms.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/digest.h"

/* Members are written in the byte order of their names; the writer puts the commas. */
struct writer {
    struct buffer *text;
    bool is_first;
};

static struct result write_name(struct writer *writer, const char *name, struct error *err)
{
    if (!writer->is_first) TRY(buffer_add_u8(writer->text, ',', err));
    writer->is_first = false;
    TRY(buffer_add_u8(writer->text, '"', err));
    TRY(buffer_add_text(writer->text, name, err));
    return buffer_add(writer->text, "\":", 2, err);
}

static struct result write_text(struct buffer *text, const char *value, struct error *err)
{
    const struct bytes bytes = bytes_of_text(value);

    if (!leaf_text_is_valid(bytes)) return failure(err, ERROR_INVALID, "an event holds text with control characters");
    return json_write_string(text, bytes, err);
}

static struct result write_integer(struct buffer *text, uint64_t value, struct error *err)
{
    char digits[20]; /* of the largest u64 */
    size_t at = sizeof digits;

    if (value > LEAF_INTEGER_MAX) return failure(err, ERROR_INVALID, "an event holds a number over 2^53");
    do digits[--at] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    return buffer_add(text, digits + at, sizeof digits - at, err);
}

static struct result write_text_member(struct writer *writer, const char *name, const char *value, struct error *err)
{
    TRY(write_name(writer, name, err));
    return write_text(writer->text, value, err);
}

static struct result write_integer_member(struct writer *writer, const char *name, uint64_t value, struct error *err)
{
    TRY(write_name(writer, name, err));
    return write_integer(writer->text, value, err);
}

/* The targets after the first, each as ["action","resource","region"]. */
static struct result write_others(struct writer *writer, const struct leaf *leaf, struct error *err)
{
    if (leaf->target_count == 1) return SUCCESS;
    TRY(write_name(writer, "also", err));
    for (size_t i = 1; i < leaf->target_count; i++) {
        const struct leaf_target *target = &leaf->targets[i];
        TRY(buffer_add_text(writer->text, i == 1 ? "[[" : ",[", err));
        TRY(write_text(writer->text, target->action, err));
        TRY(buffer_add_u8(writer->text, ',', err));
        TRY(write_text(writer->text, target->resource, err));
        TRY(buffer_add_u8(writer->text, ',', err));
        TRY(write_text(writer->text, target->region, err));
        TRY(buffer_add_u8(writer->text, ']', err));
    }
    return buffer_add_u8(writer->text, ']', err);
}

static struct result write_facts(struct writer *writer, const struct leaf *leaf, struct error *err)
{
    char hex[2 * LEAF_FACTS_DIGEST + 1];

    if (leaf->facts_count == 0) return SUCCESS;
    TRY(write_name(writer, "facts", err));
    for (size_t i = 0; i < leaf->facts_count; i++) {
        TRY(buffer_add_u8(writer->text, i == 0 ? '[' : ',', err));
        text_hex(leaf->facts[i], sizeof leaf->facts[i], hex);
        TRY(write_text(writer->text, hex, err));
    }
    return buffer_add_u8(writer->text, ']', err);
}

static struct result write_keys(struct writer *writer, const struct leaf *leaf, struct error *err)
{
    TRY(write_name(writer, "k", err));
    TRY(buffer_add_u8(writer->text, '{', err));
    for (size_t i = 0; i < leaf->key_count; i++) {
        if (i > 0) TRY(buffer_add_u8(writer->text, ',', err));
        TRY(write_text(writer->text, leaf->keys[i].name, err));
        TRY(buffer_add_u8(writer->text, ':', err));
        TRY(write_integer(writer->text, leaf->keys[i].ordinal, err));
    }
    return buffer_add_u8(writer->text, '}', err);
}

static struct result write_rules(struct writer *writer, const struct leaf_reason *reason, struct error *err)
{
    if (reason->rule_count == 0) return SUCCESS;
    TRY(write_name(writer, "rules", err));
    for (size_t i = 0; i < reason->rule_count; i++) {
        TRY(buffer_add_u8(writer->text, i == 0 ? '[' : ',', err));
        TRY(write_text(writer->text, reason->rules[i], err));
    }
    return buffer_add_u8(writer->text, ']', err);
}

static struct result write_reason(struct writer *outer, const struct leaf_reason *reason, struct error *err)
{
    struct writer writer = {outer->text, true};

    TRY(write_name(outer, "why", err));
    TRY(buffer_add_u8(writer.text, '{', err));
    if (reason->has_decided) TRY(write_integer_member(&writer, "at", reason->decided_ms, err));
    if (reason->has_bound) TRY(write_integer_member(&writer, "bound", reason->bound, err));
    if (reason->has_count) TRY(write_integer_member(&writer, "count", reason->count, err));
    if (reason->decision[0] != '\0') TRY(write_text_member(&writer, "id", reason->decision, err));
    if (reason->note[0] != '\0') TRY(write_text_member(&writer, "note", reason->note, err));
    if (reason->has_opened) TRY(write_integer_member(&writer, "opened", reason->opened, err));
    if (reason->policy[0] != '\0') TRY(write_text_member(&writer, "policy", reason->policy, err));
    TRY(write_rules(&writer, reason, err));
    return buffer_add_u8(writer.text, '}', err);
}

struct result leaf_source_write(const struct leaf_source *source, struct buffer *text, struct error *err)
{
    TRY(buffer_add_u8(text, '[', err));
    TRY(write_text(text, source->instance, err));
    TRY(buffer_add_u8(text, ',', err));
    TRY(write_integer(text, source->boot, err));
    TRY(buffer_add_u8(text, ',', err));
    TRY(write_integer(text, source->number, err));
    return buffer_add_u8(text, ']', err);
}

static struct result write_payload(struct writer *writer, const struct leaf *leaf, struct error *err)
{
    char hex[2 * sizeof leaf->payload + 1];

    if (!leaf->has_payload) return SUCCESS;
    text_hex(leaf->payload, sizeof leaf->payload, hex);
    return write_text_member(writer, "pay", hex, err);
}

static struct result write_members(struct writer *writer, const struct leaf *leaf, struct error *err)
{
    TRY(write_text_member(writer, "act", leaf->targets[0].action, err));
    TRY(write_text_member(writer, "actor", leaf->actor, err));
    TRY(write_others(writer, leaf, err));
    TRY(write_integer_member(writer, "cls", leaf->class_uid, err));
    TRY(write_facts(writer, leaf, err));
    TRY(write_keys(writer, leaf, err));
    TRY(write_text_member(writer, "out", leaf->outcome, err));
    TRY(write_payload(writer, leaf, err));
    TRY(write_text_member(writer, "req", leaf->request, err));
    TRY(write_text_member(writer, "res", leaf->targets[0].resource, err));
    TRY(write_text_member(writer, "rgn", leaf->targets[0].region, err));
    TRY(write_integer_member(writer, "seq", leaf->sequence, err));
    TRY(write_name(writer, "src", err));
    TRY(leaf_source_write(&leaf->source, writer->text, err));
    TRY(write_integer_member(writer, "ts", leaf->time_ms < 0 ? 0 : (uint64_t)leaf->time_ms, err));
    TRY(write_integer_member(writer, "v", leaf->version, err));
    return write_reason(writer, &leaf->reason, err);
}

struct result leaf_write(const struct leaf *leaf, struct buffer *text, struct error *err)
{
    const size_t before = text->length;
    struct writer writer = {text, true};

    assert(leaf->version == LEAF_VERSION || (leaf->version == 1 && leaf->facts_count == 0));
    assert(leaf->facts_count == (leaf->reason.has_decided ? leaf->target_count : 0));
    TRY(buffer_add_u8(text, '{', err));
    TRY(write_members(&writer, leaf, err));
    TRY(buffer_add_u8(text, '}', err));
    if (text->length - before > LEAF_MAX)
        return failure(err, ERROR_LIMIT, "an event of %zu bytes; at most %d are recorded", text->length - before, LEAF_MAX);
    return SUCCESS;
}

static void add_key(struct leaf *leaf, const char *kind, const char *name, size_t length)
{
    struct leaf_key key = {.ordinal = 0};

    if (length == 0 || length > LEAF_NAME_MAX) return;
    memcpy(key.name, kind, 4);
    memcpy(key.name + 4, name, length);
    for (size_t i = 0; i < leaf->key_count; i++)
        if (strcmp(leaf->keys[i].name, key.name) == 0) return;
    leaf->keys[leaf->key_count++] = key;
}

static int compare_keys(const void *a, const void *b)
{
    const struct leaf_key *left = a, *right = b;

    return strcmp(left->name, right->name);
}

/* "acme/models/digits#sha256:..." has keys of its organisation, its project and its repository. */
static void add_keys_of(struct leaf *leaf, const char *resource)
{
    const size_t organisation = strcspn(resource, "/#"), whole = strcspn(resource, "#");

    add_key(leaf, "org:", resource, organisation);
    if (organisation < whole) add_key(leaf, "prj:", resource, organisation + 1 + strcspn(resource + organisation + 1, "/#"));
    add_key(leaf, "res:", resource, whole);
}

/*
 * An export stands under the key that it is of, so that its number there shows what is missing before it; and under the keys that contain this key,
 * or their readers would miss a number.
 */
static void add_keys_of_export(struct leaf *leaf)
{
    const struct leaf_target *target = &leaf->targets[0];
    const char *detail = strchr(target->resource, '#');
    struct export_terms terms;

    if (leaf->target_count != 1 || strcmp(target->action, EXPORT_ACTION) != 0 || strcmp(leaf->outcome, "allowed") != 0) return;
    if (detail == NULL || !export_terms_read(bytes_of_text(detail + 1), &terms) || !leaf_key_is_possible(terms.key)) return;
    const bool is_name = strncmp(terms.key, "act:", 4) != 0 && strncmp(terms.key, "out:", 4) != 0;
    if (is_name) add_keys_of(leaf, terms.key + 4);
    add_key(leaf, terms.key, terms.key + 4, strlen(terms.key + 4));
}

void leaf_fill_keys(struct leaf *leaf)
{
    leaf->key_count = 0;
    for (size_t i = 0; i < leaf->target_count; i++) add_keys_of(leaf, leaf->targets[i].resource);
    add_keys_of_export(leaf);
    add_key(leaf, "act:", leaf->actor, strlen(leaf->actor));
    if (strcmp(leaf->outcome, "denied") == 0 || strcmp(leaf->outcome, "failed") == 0)
        add_key(leaf, "out:", leaf->outcome, strlen(leaf->outcome));
    qsort(leaf->keys, leaf->key_count, sizeof leaf->keys[0], compare_keys);
}

static bool is_actor(const char *name)
{
    const bool is_pseudonym = strlen(name) == 64 && strspn(name, "0123456789abcdef") == 64;

    return is_pseudonym || strcmp(name, "anonymous") == 0 || strcmp(name, "system") == 0;
}

bool leaf_key_is_possible(const char *key)
{
    const char *name = key + 4;
    const size_t length = strlen(key);

    if (length <= 4 || length > LEAF_KEY_MAX) return false;
    if (strncmp(key, "act:", 4) == 0) return is_actor(name);
    if (strncmp(key, "out:", 4) == 0) return strcmp(name, "denied") == 0 || strcmp(name, "failed") == 0;
    return strchr(name, '#') == NULL &&
           (strncmp(key, "org:", 4) == 0 || strncmp(key, "prj:", 4) == 0 || strncmp(key, "res:", 4) == 0);
}

void leaf_shorten(struct leaf *leaf)
{
    for (size_t i = 1; i < leaf->target_count; i++) leaf->targets[i].resource[strcspn(leaf->targets[i].resource, "#")] = '\0';
    if (leaf->reason.rule_count > 1) leaf->reason.rule_count = 1;
    leaf->reason.note[0] = '\0';
    if (leaf->target_count < LEAF_TARGETS_MAX) return;
    leaf->facts_count = 0;
    leaf->reason.has_decided = false;
}

void leaf_key_id(const char *name, uint8_t id_out[LEAF_KEY_ID_SIZE])
{
    uint8_t digest[SHA256_SIZE];

    sha256_of(bytes_of_text(name), digest);
    memcpy(id_out, digest, LEAF_KEY_ID_SIZE);
}

struct result leaf_payload_commitment(const uint8_t salt[LEAF_SALT_SIZE], struct bytes payload, uint8_t commitment_out[32],
                                      struct error *err)
{
    OWNED(hasher) *hasher = NULL;

    TRY(hasher_new(DIGEST_SHA256, &hasher, err));
    hasher_add(hasher, (struct bytes){(const uint8_t *)"sijil-pay-v1", sizeof "sijil-pay-v1"}); /* with its zero byte */
    hasher_add(hasher, (struct bytes){salt, LEAF_SALT_SIZE});
    hasher_add(hasher, payload);
    const struct digest digest = hasher_digest(hasher);
    memcpy(commitment_out, digest.bytes, 32);
    return SUCCESS;
}
