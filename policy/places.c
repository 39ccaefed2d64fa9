#include "policy/places.h"

#include <string.h>

#include "policy/set_priv.h"

static const struct place {
    const char *country, *parts; /* "AJ AZ DU" */
} places[] = {
#define PLACE(country, parts) {country, parts},
#include "policy/places.def"
#undef PLACE
};

static const char *const regimes[] = {
#define REGIME(name, what) name,
#include "policy/regimes.def"
#undef REGIME
};

/* A part of the country has two or three letters, and the list has one space between two of them. */
static bool has_part(const char *parts, const char *part)
{
    const size_t length = strlen(part);

    while (length > 0 && parts[0] != '\0') {
        const size_t size = strcspn(parts, " ");
        if (size == length && memcmp(parts, part, size) == 0) return true;
        parts += size + (parts[size] == ' ');
    }
    return false;
}

bool place_is_known(const char *geo)
{
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (strncmp(geo, places[i].country, 2) != 0) continue;
        return geo[2] == '\0' || (geo[2] == '/' && has_part(places[i].parts, geo + 3));
    }
    return false;
}

bool place_is_within(const char *place, const char *whole)
{
    const size_t length = strlen(whole);

    return strncmp(place, whole, length) == 0 && (place[length] == '\0' || place[length] == '/');
}

bool regime_is_known(const char *regime)
{
    if (strncmp(regime, "X-", 2) == 0) return true;
    for (size_t i = 0; i < sizeof regimes / sizeof regimes[0]; i++)
        if (strcmp(regime, regimes[i]) == 0) return true;
    return false;
}

/* ---- the walk over a set ---- */

struct walk {
    unknown_word_found *found;
    void *context;
    const char *part, *owner;
};

enum word_kind { NO_WORD, PLACE_WORD, REGIME_WORD };

/* Which members have places and regimes. The shapes know no other member of these names; texts of evidence are free. */
static enum word_kind kind_of(const char *member)
{
    static const struct {
        const char *member;
        enum word_kind kind;
    } kinds[] = {{"geo", PLACE_WORD},
                 {"geo_within", PLACE_WORD},
                 {"key_geo_within", PLACE_WORD},
                 {"controlled_from", PLACE_WORD},
                 {"operator_not_controlled_from", PLACE_WORD},
                 {"regimes", REGIME_WORD},
                 {"regime_any", REGIME_WORD},
                 {"attached", REGIME_WORD},
                 {"attached_any", REGIME_WORD}};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].member, member) == 0) return kinds[i].kind;
    return NO_WORD;
}

static struct result check_word(const struct walk *walk, const char *member, enum word_kind kind, const char *word,
                                struct error *err)
{
    const bool is_known = kind == REGIME_WORD ? regime_is_known(word) : place_is_known(word);
    const struct unknown_word unknown = {word, member, walk->part, walk->owner, kind == REGIME_WORD};

    return is_known ? SUCCESS : walk->found(walk->context, &unknown, err);
}

static struct result check_words(const struct walk *walk, const char *member, enum word_kind kind, const json_t *value,
                                 struct error *err)
{
    if (json_is_string(value)) return check_word(walk, member, kind, json_string_value(value), err);
    for (size_t i = 0; i < json_array_size(value); i++)
        TRY(check_word(walk, member, kind, json_string_value(json_array_get(value, i)), err));
    return SUCCESS;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the shapes in policy/shapes.c */
static struct result visit(const struct walk *walk, const json_t *value, struct error *err)
{
    const char *member = NULL;
    json_t *each = NULL;

    for (size_t i = 0; i < json_array_size(value); i++) TRY(visit(walk, json_array_get(value, i), err));
    json_object_foreach ((json_t *)(uintptr_t)value, member, each) {
        const enum word_kind kind = json_is_object(each) ? NO_WORD : kind_of(member);
        if (strcmp(member, "evidence") == 0) continue;
        if (kind != NO_WORD) TRY(check_words(walk, member, kind, each, err));
        else TRY(visit(walk, each, err));
    }
    return SUCCESS;
}

/* The name by which a person finds it: of a policy, an exception or a network. */
static const char *name_of(const json_t *value)
{
    const char *id = json_text_of(json_object_get(value, "metadata"), "id");

    if (id == NULL) id = json_text_of(value, "id");
    if (id == NULL) id = json_text_of(value, "cidr");
    return id == NULL ? "" : id;
}

static struct result visit_group(const struct walk *walk, const json_t *group, struct error *err)
{
    const char *kind = json_text_of(group, "kind");
    const bool is_regime = kind != NULL && strcmp(kind, "regime") == 0;

    return check_words(walk, "members", is_regime ? REGIME_WORD : PLACE_WORD, json_object_get(group, "members"), err);
}

static struct result visit_part(struct walk *walk, const json_t *part, struct error *err)
{
    const char *name = NULL;
    json_t *each = NULL;

    for (size_t i = 0; i < json_array_size(part); i++) {
        walk->owner = name_of(json_array_get(part, i));
        TRY(visit(walk, json_array_get(part, i), err));
    }
    json_object_foreach ((json_t *)(uintptr_t)part, name, each) {
        walk->owner = name;
        TRY(strcmp(walk->part, "groups") == 0 ? visit_group(walk, each, err) : visit(walk, each, err));
    }
    return SUCCESS;
}

struct result places_search(const json_t *set, unknown_word_found *found, void *context, struct error *err)
{
    struct walk walk = {.found = found, .context = context};
    json_t *part = NULL;

    json_object_foreach ((json_t *)(uintptr_t)set, walk.part, part) TRY(visit_part(&walk, part, err));
    return SUCCESS;
}

static struct result refuse(void *context, const struct unknown_word *word, struct error *err)
{
    (void)context;
    return failure(err, ERROR_INVALID, "%.20s%s%.64s: %.40s: %.24s is %s", word->part, word->owner[0] == '\0' ? "" : " ",
                   word->owner, word->member, word->word,
                   word->is_regime ? "no known regime (docs/policies.md); one of your own begins with X-"
                                   : "no country, and no part of one, in ISO 3166: AE, AE/DU");
}

struct result places_check_document(const json_t *set, struct error *err)
{
    return places_search(set, refuse, NULL, err);
}

struct result places_check(const struct policy_set *set, struct error *err)
{
    return places_check_document(set->json, err);
}
