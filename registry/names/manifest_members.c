#include "registry/names/manifest_members.h"

#include <stdbool.h>
#include <stdint.h>

/* The type of a member's value; null counts as absent. */
enum type { TEXT, NUMBER, TEXTS, MAP, OBJECT, ARRAY, ANYTHING };

/* A specified member. `inside` has the members of its object, or of each object of its array. The last element has no name. */
struct member {
    const char *name;
    enum type type;
    const struct member *inside;
};

static const struct member platform_members[] = {
    {"architecture", TEXT, NULL}, {"os", TEXT, NULL},        {"os.version", TEXT, NULL}, {"os.features", TEXTS, NULL},
    {"variant", TEXT, NULL},      {"features", TEXTS, NULL}, {NULL, ANYTHING, NULL},
};

static const struct member descriptor_members[] = {
    {"mediaType", TEXT, NULL}, {"digest", TEXT, NULL},       {"size", NUMBER, NULL},     {"urls", TEXTS, NULL},
    {"data", TEXT, NULL},      {"artifactType", TEXT, NULL}, {"annotations", MAP, NULL}, {"platform", OBJECT, platform_members},
    {NULL, ANYTHING, NULL},
};

/* The members of manifests and of indexes. fsLayers, history and signatures are of schema 1: registry/manifest.c refuses them. */
static const struct member document_members[] = {
    {"schemaVersion", NUMBER, NULL},
    {"mediaType", TEXT, NULL},
    {"artifactType", TEXT, NULL},
    {"config", OBJECT, descriptor_members},
    {"layers", ARRAY, descriptor_members},
    {"manifests", ARRAY, descriptor_members},
    {"subject", OBJECT, descriptor_members},
    {"annotations", MAP, NULL},
    {"fsLayers", ANYTHING, NULL},
    {"history", ANYTHING, NULL},
    {"signatures", ANYTHING, NULL},
    {NULL, ANYTHING, NULL},
};

/* One character folded like Go's strings.EqualFold, if the result is ASCII; moves `text` past it. */
static char folded(const char **text)
{
    const char *at = *text;
    const bool is_kelvin = at[0] == '\xe2' && at[1] == '\x84' && at[2] == '\xaa';
    const bool is_long_s = at[0] == '\xc5' && at[1] == '\xbf';

    *text += is_kelvin ? 3 : is_long_s ? 2 : 1;
    if (is_kelvin) return 'k';
    if (is_long_s) return 's';
    if (at[0] >= 'A' && at[0] <= 'Z') return (char)(at[0] - 'A' + 'a');
    return at[0];
}

static bool is_folded_same(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0')
        if (folded(&a) != folded(&b)) return false;
    return *a == '\0' && *b == '\0';
}

static bool is_same(const char *a, const char *b)
{
    for (; *a != '\0' && *a == *b; a++, b++) continue;
    return *a == *b;
}

static struct result find(const char *key, const struct member *members, const struct member **member_out, struct error *err)
{
    for (const struct member *member = members; member->name != NULL; member++) {
        if (!is_folded_same(key, member->name)) continue;
        if (!is_same(key, member->name))
            return failure(err, ERROR_INVALID, "the name \"%.60s\" is spelled \"%s\"; some clients would take it for that", key,
                           member->name);
        *member_out = member;
        return SUCCESS;
    }
    *member_out = NULL;
    return SUCCESS;
}

static bool all_are_texts(const json_t *array)
{
    const json_t *item = NULL;
    size_t index = 0;

    json_array_foreach (array, index, item) {
        if (!json_is_string(item)) return false;
    }
    return true;
}

static bool has_texts_only(const json_t *object)
{
    const char *key = NULL;
    const json_t *value = NULL;

    json_object_foreach ((json_t *)(uintptr_t)object, key, value) {
        if (!json_is_string(value)) return false;
    }
    return true;
}

static struct result check_type(const json_t *value, const struct member *member, struct error *err)
{
    static const char *const types[] = {"a text",   "a number", "a list of texts", "an object of texts", "an object",
                                        "an array", ""};
    bool fits = true;

    switch (member->type) {
    case TEXT: fits = json_is_string(value); break;
    case NUMBER: fits = json_is_number(value); break;
    case TEXTS: fits = json_is_array(value) && all_are_texts(value); break;
    case MAP: fits = json_is_object(value) && has_texts_only(value); break;
    case OBJECT: fits = json_is_object(value); break;
    case ARRAY: fits = json_is_array(value); break;
    case ANYTHING: break;
    }
    if (fits || json_is_null(value)) return SUCCESS;
    return failure(err, ERROR_INVALID, "\"%s\" is not %s: some clients would not read the manifest", member->name,
                   types[member->type]);
}

static struct result check_inside(const json_t *value, const struct member *members, struct error *err);

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tables */
static struct result check_object(const json_t *object, const struct member *members, struct error *err)
{
    const char *key = NULL;
    const json_t *value = NULL;

    json_object_foreach ((json_t *)(uintptr_t)object, key, value) {
        const struct member *member = NULL;
        TRY(find(key, members, &member, err));
        if (member == NULL) continue;
        TRY(check_type(value, member, err));
        if (member->inside != NULL) TRY(check_inside(value, member->inside, err));
    }
    return SUCCESS;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tables */
static struct result check_inside(const json_t *value, const struct member *members, struct error *err)
{
    const json_t *item = NULL;
    size_t index = 0;

    if (json_is_object(value)) return check_object(value, members, err);
    json_array_foreach (value, index, item) {
        if (json_is_object(item)) TRY(check_object(item, members, err));
    }
    return SUCCESS;
}

struct result manifest_check_members(const json_t *document, struct error *err)
{
    return json_is_object(document) ? check_object(document, document_members, err) : SUCCESS;
}
