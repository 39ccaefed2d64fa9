/* Conditions of a search: how they are read, and how an entry is compared with them. */
#include <string.h>

#include "audit/event_priv.h"
#include "audit/format/search_terms.h"
#include "audit/query_priv.h"
#include "audit/search_blind_priv.h"
#include "audit/search_find_priv.h"
#include "audit/subject_priv.h"
#include "base/network.h"
#include "base/text.h"

static struct result put(struct search_condition *condition, const char *text, struct error *err)
{
    if (condition->count == SEARCH_VALUES_MAX)
        return failure(err, ERROR_LIMIT, "%s has more than %d values", search_field_name(condition->field), SEARCH_VALUES_MAX);
    if (text[0] == '\0' || !text_copy(condition->values[condition->count], sizeof condition->values[0], text))
        return failure(err, ERROR_INVALID, "%s has 1 to %d bytes", search_field_name(condition->field), SEARCH_VALUE_MAX);
    condition->count++;
    return SUCCESS;
}

static struct result add_address(struct search_condition *condition, const char *value, struct error *err)
{
    char address[BLIND_TEXT_SIZE], network[BLIND_TEXT_SIZE];

    if (strcmp(value, "unix") == 0) return put(condition, value, err);
    if (!blind_address(value, address, network))
        return failure(err, ERROR_INVALID,
                       "address is an IP address without a prefix, such as 192.0.2.7, or unix; for a network use network");
    return put(condition, address, err);
}

static struct result add_network(struct search_condition *condition, const char *value, struct error *err)
{
    char text[NETWORK_TEXT_SIZE];
    struct network network;

    if (network_read(bytes_of_text(value), &network) != NETWORK_GOOD ||
        network.bits != (network_is_ipv4(&network) ? 96 + SEARCH_NETWORK_IPV4 : SEARCH_NETWORK_IPV6))
        return failure(err, ERROR_INVALID,
                       "network is a network of %d bits of IPv4 or %d bits of IPv6, such as 192.0.2.0/24: others are not found",
                       SEARCH_NETWORK_IPV4, SEARCH_NETWORK_IPV6);
    network_write(&network, text);
    return put(condition, text, err);
}

static struct result add_prefix(struct search_condition *condition, const char *value, struct error *err)
{
    size_t length = strlen(value), segments = 1;
    char text[SEARCH_VALUE_MAX + 1];

    if (length > 0 && value[length - 1] == '/') length--; /* "acme/" is the same as "acme" */
    if (length > 0 && value[length - 1] == '/') return failure(err, ERROR_INVALID, "prefix is a name, or whole segments of one");
    for (size_t i = 0; i < length; i++) segments += value[i] == '/';
    if (length > SEARCH_VALUE_MAX || segments > SEARCH_SEGMENTS_MAX)
        return failure(err, ERROR_INVALID, "prefix has at most %d bytes and %d segments", SEARCH_VALUE_MAX, SEARCH_SEGMENTS_MAX);
    memcpy(text, value, length);
    text[length] = '\0';
    return put(condition, text, err);
}

static struct result add_country(struct search_condition *condition, const char *value, struct error *err)
{
    if (strlen(value) != 2 || !text_consists_of(bytes_of_text(value), "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
        return failure(err, ERROR_INVALID, "country is two capital letters, such as AE");
    return put(condition, value, err);
}

struct result search_condition_add(struct search_condition *condition, const char *value, struct error *err)
{
    const enum search_field field = condition->field;

    if (field == SEARCH_ADDRESS) return add_address(condition, value, err);
    if (field == SEARCH_NETWORK) return add_network(condition, value, err);
    if (field == SEARCH_PREFIX) return add_prefix(condition, value, err);
    if (field == SEARCH_COUNTRY) return add_country(condition, value, err);
    return put(condition, value, err);
}

void search_condition_of_key(const char *key, struct search_condition *condition_out)
{
    static const struct key_row {
        const char *beginning;
        enum search_field field;
    } rows[] = {{"org:", SEARCH_PREFIX},
                {"prj:", SEARCH_PREFIX},
                {"res:", SEARCH_RESOURCE},
                {"act:", SEARCH_ACTOR},
                {"out:", SEARCH_OUTCOME}};

    condition_out->count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strncmp(key, rows[i].beginning, 4) != 0) continue;
        condition_out->field = rows[i].field;
        if (text_copy(condition_out->values[0], sizeof condition_out->values[0], key + 4)) condition_out->count = 1;
    }
}

static struct result add_pseudonym(const struct search_source *source, const char *issuer, const char *name,
                                   struct search_condition *condition, struct error *err)
{
    const char *const names[2] = {issuer, name};
    OWNED(secret) *key = NULL;
    char pseudonym[65];
    const struct result found = subject_key_find(source->keyd, source->pg, names, false, &key, err);

    if (!found.ok) return err->kind == ERROR_NOT_FOUND ? SUCCESS : found;
    subject_pseudonym(names, key, pseudonym);
    return put(condition, pseudonym, err);
}

struct result search_add_name(const struct permit *permit, const struct search_source *source, const char *name,
                              struct search_condition *condition, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    (void)permit_resource(permit, ACTION_AUDIT_READ);
    if (name[0] == '\0' || strlen(name) > SUBJECT_TEXT_MAX)
        return failure(err, ERROR_INVALID, "the name of an actor has 1 to %d bytes", SUBJECT_TEXT_MAX);
    TRY(search_select_issuers(source->pg, name, SEARCH_VALUES_MAX, &rows, err));
    TRY(add_pseudonym(source, REGISTRY_ISSUER, name, condition, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) TRY(add_pseudonym(source, pg_text(rows, i, 0), name, condition, err));
    return SUCCESS;
}

/* "" for the registry: it has no condition. */
static struct bytes scope_of(const struct permit *permit, enum search_field *field_out)
{
    const struct resource *resource = permit_resource(permit, ACTION_AUDIT_READ);

    *field_out = resource->kind == RESOURCE_REPOSITORY ? SEARCH_RESOURCE : SEARCH_PREFIX;
    return bytes_of_text(resource->kind == RESOURCE_SYSTEM ? "" : resource->name);
}

static void add_open_group(const struct search_condition *condition, struct search_walk *walk)
{
    struct posting_key keys[SEARCH_VALUES_MAX];

    for (size_t i = 0; i < condition->count; i++)
        keys[i] = (struct posting_key){search_key(condition->field, bytes_of_text(condition->values[i])), POSTING_OPEN};
    search_walk_add(walk, keys, condition->count);
}

/* The years of the searched times, each with its key. */
struct years {
    size_t count;
    struct secret *keys[WALK_KEYS_MAX];
};

static void years_free(struct years *years)
{
    for (size_t i = 0; i < years->count; i++) secret_free(years->keys[i]);
}

static struct result open_years(const struct search_source *source, int first, int last, struct years *years, struct error *err)
{
    for (int year = first; year <= last && years->count < WALK_KEYS_MAX; year++) {
        struct secret *key = NULL;
        const struct result opened = blind_key_open(source->keyd, source->pg, year, false, &key, err);
        if (!opened.ok && err->kind != ERROR_NOT_FOUND) return opened;
        if (opened.ok) years->keys[years->count++] = key;
    }
    return SUCCESS;
}

static struct result add_blind_group(const struct search_condition *condition, const struct years *years,
                                     struct search_walk *walk, struct error *err)
{
    const enum posting_kind kind = condition->field == SEARCH_COUNTRY ? POSTING_WIDE : POSTING_NARROW;
    struct posting_key keys[WALK_KEYS_MAX];
    size_t count = 0;

    if (condition->count * years->count > WALK_KEYS_MAX)
        return failure(err, ERROR_INVALID, "%s has too many values for so many years: ask for one value, or give since and until",
                       search_field_name(condition->field));
    for (size_t i = 0; i < condition->count; i++)
        for (size_t k = 0; k < years->count; k++)
            keys[count++] = (struct posting_key){blind_key_of(years->keys[k], condition->field, condition->values[i]), kind};
    search_walk_add(walk, keys, count);
    return SUCCESS;
}

/* The years of the first and of the last searched event. */
static struct result find_years(const struct search_source *source, const struct search *search, struct years *years,
                                struct error *err)
{
    int64_t first_ms = 0, last_ms = 0;

    if (search->from >= search->until) return SUCCESS;
    TRY(search_select_time(source->pg, search->from, &first_ms, err));
    TRY(search_select_time(source->pg, search->until - 1, &last_ms, err));
    return open_years(source, blind_year(first_ms), blind_year(last_ms), years, err);
}

static struct result add_groups(const struct search *search, const struct years *years, struct search_walk *walk,
                                struct error *err)
{
    for (size_t i = 0; i < search->condition_count; i++) {
        const struct search_condition *condition = &search->conditions[i];
        if (search_field_is_blind(condition->field)) TRY(add_blind_group(condition, years, walk, err));
        else add_open_group(condition, walk);
    }
    return SUCCESS;
}

static bool has_blind_condition(const struct search *search)
{
    for (size_t i = 0; i < search->condition_count; i++)
        if (search_field_is_blind(search->conditions[i].field)) return true;
    return false;
}

struct result search_add_groups(const struct permit *permit, const struct search_source *source, const struct search *search,
                                struct search_walk *walk, struct error *err)
{
    struct years years = {.count = 0};
    enum search_field field;
    const struct bytes scope = scope_of(permit, &field);

    if (scope.length > 0) search_walk_add(walk, &(struct posting_key){search_key(field, scope), POSTING_OPEN}, 1);
    struct result result = has_blind_condition(search) ? find_years(source, search, &years, err) : SUCCESS;
    if (result.ok) result = add_groups(search, &years, walk, err);
    years_free(&years);
    return result;
}

struct result search_entry_at(struct pg *pg, int64_t wall_ms, uint64_t size, uint64_t *sequence_out, struct error *err)
{
    uint64_t low = 0, high = size;
    int64_t found_ms = 0;

    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        TRY(search_select_time(pg, middle, &found_ms, err));
        if (found_ms < wall_ms) low = middle + 1;
        else high = middle;
    }
    *sequence_out = low;
    return SUCCESS;
}

static bool meets_one(const struct search_condition *condition, const struct search_terms *terms,
                      const struct blind_values *values)
{
    for (size_t i = 0; i < condition->count; i++) {
        const char *value = condition->values[i];
        if (search_field_is_blind(condition->field)
                ? blind_values_have(values, condition->field, value)
                : search_terms_have(terms, search_key(condition->field, bytes_of_text(value))))
            return true;
    }
    return false;
}

static bool meets_all(const struct search *search, const struct search_terms *terms, const struct blind_values *values,
                      bool blind)
{
    for (size_t i = 0; i < search->condition_count; i++) {
        const struct search_condition *condition = &search->conditions[i];
        if (search_field_is_blind(condition->field) == blind && !meets_one(condition, terms, values)) return false;
    }
    return true;
}

struct result search_meets(const struct search_hunt *hunt, struct audit_page *page, size_t index, bool *meets_out,
                           struct error *err)
{
    struct blind_values values = {.count = 0};
    struct search_terms terms;
    enum search_field field;
    struct leaf leaf;
    const struct bytes scope = scope_of(hunt->permit, &field);

    *meets_out = false;
    if (!audit_page_is_readable(page, index)) return SUCCESS;
    TRY(leaf_read(audit_page_leaf(page, index), &leaf, err));
    search_terms_of(&leaf, &terms);
    if (scope.length > 0 && !search_terms_have(&terms, search_key(field, scope))) return SUCCESS;
    if (!meets_all(hunt->search, &terms, &values, false)) return SUCCESS;
    *meets_out = true;
    if (!has_blind_condition(hunt->search)) return SUCCESS;
    const struct blind_reader reader = {{hunt->source->keyd, hunt->source->origin, NULL}, NULL};
    TRY(blind_values_of(page, index, &leaf, &reader, &values, err));
    *meets_out = meets_all(hunt->search, &terms, &values, true);
    secret_wipe(&values, sizeof values);
    return SUCCESS;
}
