/* What a new policy set changes, for whoever drafts or signs it: by comparing and analysing both sets on this machine. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "client/commands/api_priv.h"
#include "client/commands/policy_priv.h"
#include "client/terminal.h"
#include "policy/compare.h"
#include "policy/set_change.h"

#define NAME_MAX_SHOWN   120
#define TEXT_MAX         ((size_t)64 * 1024) /* of one exception */
#define LOOSENINGS_SHOWN 10

typedef struct result namer(const json_t *value, struct buffer *name, struct error *err);

static struct result name_policy(const json_t *value, struct buffer *name, struct error *err)
{
    const json_t *metadata = json_object_get(value, "metadata");
    const char *id = json_text_of(metadata, "id");

    return buffer_format(name, err, "%.64s@%lld", id == NULL ? "?" : id, (long long)number_of(metadata, "version"));
}

static struct result name_network(const json_t *value, struct buffer *name, struct error *err)
{
    const char *cidr = json_text_of(value, "cidr"), *authority = json_text_of(value, "authority"),
               *listener = json_text_of(value, "listener");

    if (cidr != NULL) return buffer_format(name, err, "%.64s", cidr);
    if (authority != NULL) return buffer_format(name, err, "authority:%.80s", authority);
    return buffer_format(name, err, "listener:%.80s", listener == NULL ? "?" : listener);
}

/* What has no name is named by its whole content: of two with the same beginning, one would hide the other from whoever signs both. */
static struct result name_content(const json_t *value, struct buffer *name, struct error *err)
{
    return json_write_canonical(name, value, err);
}

/* A list as an object by names; an object as it is. */
static struct result by_name(const json_t *set, const char *member, namer *name_of, json_t **map_out, struct error *err)
{
    const json_t *value = json_object_get(set, member);
    OWNED_JSON map = json_is_object(value) ? json_incref((json_t *)(uintptr_t)value) : json_object();

    if (map == NULL) return api_no_memory(err);
    for (size_t i = 0; i < json_array_size(value); i++) {
        struct buffer OWNED_BUFFER name = BUFFER(TEXT_MAX);
        TRY(name_of(json_array_get(value, i), &name, err));
        if (json_object_set(map, buffer_text(&name), json_array_get(value, i)) != 0) return api_no_memory(err);
    }
    *map_out = GIVE(map);
    return SUCCESS;
}

/* The whole: what is cut off would be signed unseen. */
static struct result say(const char *sign, const char *what, const char *name, unsigned *changes, struct error *err)
{
    char *shown = memory_copy_text(name, strlen(name));

    if (shown == NULL) return api_no_memory(err);
    terminal_sanitize(shown);
    (void)fprintf(stderr, "  %s %s %s\n", sign, what, shown);
    free(shown);
    ++*changes;
    return SUCCESS;
}

/* ---- what is changed in what stays ---- */

static struct result name_id(const json_t *value, struct buffer *name, struct error *err)
{
    const char *id = json_text_of(value, "id");

    return buffer_format(name, err, "%.128s", id == NULL ? "?" : id);
}

static struct result tell_values(const char *name, const json_t *old, const json_t *new, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER((size_t)2 * POLICY_SET_BYTES_MAX);
    unsigned parts = 0;

    TRY(buffer_format(&text, err, "%.160s: ", name));
    TRY(old == NULL ? buffer_add_text(&text, "(none)", err) : json_write_canonical(&text, old, err));
    TRY(buffer_add_text(&text, " -> ", err));
    TRY(new == NULL ? buffer_add_text(&text, "(none)", err) : json_write_canonical(&text, new, err));
    return say("   ", "~", buffer_text(&text), &parts, err);
}

/* The members, or rules by their ids, that differ. */
static struct result tell_members(json_t *old, json_t *new, const char *before, struct error *err)
{
    OWNED_JSON all = json_copy(old);
    const char *name;
    json_t *value;

    if (all == NULL || json_object_update(all, new) != 0) return api_no_memory(err);
    json_object_foreach (all, name, value) {
        char shown[NAME_MAX_SHOWN];
        const json_t *was = json_object_get(old, name), *is = json_object_get(new, name);
        const bool has_ids = before[0] == '\0' && strcmp(name, "rules") == 0;
        (void)snprintf(shown, sizeof shown, "%s%s", before, name);
        if ((was == NULL || is == NULL || json_equal(was, is) != 1) && !has_ids) TRY(tell_values(shown, was, is, err));
    }
    return SUCCESS;
}

static struct result tell_changed(json_t *old, json_t *new, struct error *err)
{
    OWNED_JSON rules_before = NULL;
    OWNED_JSON rules_after = NULL;

    TRY(tell_members(old, new, "", err));
    TRY(by_name(old, "rules", name_id, &rules_before, err));
    TRY(by_name(new, "rules", name_id, &rules_after, err));
    return tell_members(rules_before, rules_after, "rule ", err);
}

static struct result compare_maps(const char *what, json_t *before, json_t *after, unsigned *changes, struct error *err)
{
    const char *name;
    json_t *value;

    json_object_foreach (after, name, value) {
        json_t *old = json_object_get(before, name);
        if (old != NULL && json_equal(old, value) == 1) continue;
        TRY(say(old == NULL ? "+" : "~", what, name, changes, err));
        if (old != NULL) TRY(tell_changed(old, value, err));
    }
    json_object_foreach (before, name, value)
        if (json_object_get(after, name) == NULL) TRY(say("-", what, name, changes, err));
    return SUCCESS;
}

static struct result compare_root(const json_t *next, unsigned *changes, struct error *err)
{
    const json_t *root = json_object_get(next, "root");
    struct buffer OWNED_BUFFER text = BUFFER(TEXT_MAX);

    if (root == NULL) return SUCCESS;
    TRY(json_write_canonical(&text, root, err));
    return say("~", "how many must sign from then on:", buffer_text(&text), changes, err);
}

static void tell_loosening(const struct policy_difference *difference)
{
    char scope[NAME_MAX_SHOWN], target[NAME_MAX_SHOWN], detail[NAME_MAX_SHOWN];

    (void)snprintf(scope, sizeof scope, "%s", difference->scope);
    (void)snprintf(target, sizeof target, "%s", difference->target_id);
    (void)snprintf(detail, sizeof detail, "%s", difference->detail);
    terminal_sanitize(scope);
    terminal_sanitize(target);
    terminal_sanitize(detail);
    (void)fprintf(stderr, "  LOOSENS %s%s", policy_change_name(difference->change), difference->operations == 0 ? "" : ": ");
    policy_operations_print(stderr, difference->operations);
    (void)fprintf(stderr, "%s%s%s%s%s%s\n", scope[0] == '\0' ? "" : " on ", scope, target[0] == '\0' ? "" : " in ", target,
                  detail[0] == '\0' ? "" : ": ", detail);
}

/* What is pinned to the id of an added policy would be free: only sijil-keyd knows whether an earlier set had it. */
static size_t added_ids(const struct policy_set *base, const struct policy_set *next, const char *ids_out[POLICY_COUNT_MAX])
{
    const json_t *policies = json_object_get(policy_set_json(next), "policies");
    size_t count = 0;

    if (!policy_set_only_restricts(base, next)) return 0;
    for (size_t i = 0; i < json_array_size(policies) && i < POLICY_COUNT_MAX; i++)
        ids_out[count++] = json_text_of(json_object_get(json_array_get(policies, i), "metadata"), "id");
    return count;
}

/* By analysis of both sets (policy/compare.h): what exists is among its findings, or a doubt stands for it. */
static struct result tell_loosenings(const struct policy_set *base, const struct policy_set *next, struct error *err)
{
    const char *ids[POLICY_COUNT_MAX];
    const struct policy_compared compared = {.old_set = base,
                                             .new_set = next,
                                             .now_us = clock_wall_ms() * 1000,
                                             .unused_id_count = added_ids(base, next, ids),
                                             .unused_ids = ids};
    OWNED(policy_comparison) *comparison = NULL;
    size_t loosenings = 0;

    TRY(policy_compare(&compared, &comparison, err));
    for (size_t i = 0; i < policy_comparison_count(comparison); i++) {
        const struct policy_difference *difference = policy_comparison_at(comparison, i);
        if (!policy_change_loosens(difference->change)) continue;
        if (loosenings++ < LOOSENINGS_SHOWN) tell_loosening(difference);
    }
    if (policy_set_only_restricts(base, next))
        (void)fprintf(
            stderr,
            "  It only adds policies that restrict, or ends exceptions: one person is enough, if no earlier set had their ids.\n");
    else if (loosenings == 0) (void)fprintf(stderr, "  It loosens nothing.\n");
    else
        (void)fprintf(
            stderr,
            "  It LOOSENS what holds now (%zu). Where the root is several persons, one more must sign it. 'sijil policy diff' shows "
            "each with its rules.\n",
            loosenings);
    return SUCCESS;
}

struct result policy_show_changes(const struct policy_set *base, const struct policy_set *next, struct error *err)
{
    static const struct {
        const char *member, *what;
        namer *name_of;
    } members[] = {{"policies", "policy", name_policy},       {"regions", "region", name_content},
                   {"groups", "group", name_content},         {"networks", "network", name_network},
                   {"exceptions", "exception", name_content}, {"declassified", "declassification", name_content}};
    const json_t *before = base == NULL ? NULL : policy_set_json(base), *after = policy_set_json(next);
    unsigned changes = 0;

    (void)fprintf(stderr, "The policy set of epoch %llu changes that of epoch %llu:\n",
                  (unsigned long long)policy_set_epoch(next), base == NULL ? 0ULL : (unsigned long long)policy_set_epoch(base));
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        OWNED_JSON old = NULL;
        OWNED_JSON new = NULL;
        TRY(by_name(before, members[i].member, members[i].name_of, &old, err));
        TRY(by_name(after, members[i].member, members[i].name_of, &new, err));
        TRY(compare_maps(members[i].what, old, new, &changes, err));
    }
    TRY(compare_root(after, &changes, err));
    if (changes == 0) (void)fprintf(stderr, "  nothing but its number\n");
    return base == NULL ? SUCCESS : tell_loosenings(base, next, err);
}
