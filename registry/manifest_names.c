#include "registry/manifest_names.h"

#include <stdbool.h>
#include <stdint.h>

/* A member that is specified; `inside`: the names of its object, or of each object of its array. The last one has no name. */
struct name {
    const char *name;
    const struct name *inside;
};

static const struct name platform_names[] = {
    {"architecture", NULL}, {"os", NULL},      {"os.version", NULL}, {"os.features", NULL},
    {"variant", NULL},      {"features", NULL}, {NULL, NULL},
};

static const struct name descriptor_names[] = {
    {"mediaType", NULL}, {"digest", NULL}, {"size", NULL},         {"urls", NULL}, {"annotations", NULL},
    {"data", NULL},      {"artifactType", NULL}, {"platform", platform_names}, {NULL, NULL},
};

/* Of manifests and of indexes; containerd takes one with fsLayers for a document of schema 1. */
static const struct name document_names[] = {
    {"schemaVersion", NULL},           {"mediaType", NULL},           {"artifactType", NULL},
    {"config", descriptor_names},      {"layers", descriptor_names},  {"manifests", descriptor_names},
    {"subject", descriptor_names},     {"annotations", NULL},         {"fsLayers", NULL},
    {NULL, NULL},
};

/* One letter as Go's strings.EqualFold has it, as far as it is one of ASCII; moves `text` behind it. */
static char folded(const char **text)
{
    const char *at = *text;
    const bool is_kelvin = at[0] == '\xe2' && at[1] == '\x84' && at[2] == '\xaa';
    const bool is_long_s = at[0] == '\xc5' && at[1] == '\xbf';

    *text += is_kelvin ? 3 : is_long_s ? 2 : 1;
    if (is_kelvin) return 'k';
    if (is_long_s) return 's';
    return at[0] >= 'A' && at[0] <= 'Z' ? (char)(at[0] - 'A' + 'a') : at[0];
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

static struct result find(const char *key, const struct name *names, const struct name **name_out, struct error *err)
{
    for (const struct name *name = names; name->name != NULL; name++) {
        if (!is_folded_same(key, name->name)) continue;
        if (!is_same(key, name->name))
            return failure(err, ERROR_INVALID, "the name \"%.60s\" is spelled \"%s\"; some clients would take it for that", key, name->name);
        *name_out = name;
        return SUCCESS;
    }
    *name_out = NULL;
    return SUCCESS;
}

static struct result check_value(const json_t *value, const struct name *names, struct error *err);

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tables */
static struct result check_object(const json_t *object, const struct name *names, struct error *err)
{
    const char *key = NULL;
    const json_t *value = NULL;

    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        const struct name *name = NULL;
        TRY(find(key, names, &name, err));
        if (name != NULL && name->inside != NULL) TRY(check_value(value, name->inside, err));
    }
    return SUCCESS;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tables */
static struct result check_value(const json_t *value, const struct name *names, struct error *err)
{
    const json_t *item = NULL;
    size_t index = 0;

    if (json_is_object(value)) return check_object(value, names, err);
    json_array_foreach(value, index, item) {
        if (json_is_object(item)) TRY(check_object(item, names, err));
    }
    return SUCCESS;
}

struct result manifest_check_names(const json_t *document, struct error *err)
{
    return json_is_object(document) ? check_object(document, document_names, err) : SUCCESS;
}
