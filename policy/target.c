#include "policy/target.h"

#include <string.h>

#include "base/memory.h"
#include "policy/compiled_priv.h"

static struct result compile_fact(struct policy_target *target, const char *name, struct fact *fact, struct error *err)
{
    const json_t *value = json_object_get(target->json, name);

    fact->is_known = value != NULL;
    fact->text = json_string_value(value);
    fact->number = json_integer_value(value);
    return compile_texts(target->arena, value, &fact->texts, err);
}

static struct result compile_target(struct policy_target *target, struct error *err)
{
    const json_t *json = target->json, *key = json_object_get(json, "key");

    TRY(shape_check(&shape_target, json, "target", err));
    TRY(canonical_copy(json, POLICY_DOCUMENT_BYTES_MAX, &target->canonical, err));
    target->geo = json_text_of(json, "geo");
    target->key_geo = json_text_of(key, "geo");
    target->key_control = json_text_of(key, "control");
#define FACT(constant, fact, ...) TRY(compile_fact(target, fact, &target->facts[FACT_##constant], err));
#include "policy/facts.def"
#undef FACT
    return compile_texts(target->arena, json_object_get(json_object_get(json, "operator"), "controlled_from"),
                         &target->controllers, err);
}

struct result policy_target_new(const json_t *json, struct policy_target **target_out, struct error *err)
{
    OWNED(policy_target) *target = memory_zeroed(1, sizeof *target);

    if (target == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for facts");
    TRY(arena_new(POLICY_ARENA_MAX, &target->arena, err));
    target->known = memory_zeroed(1, sizeof *target->known);
    if (target->known == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for facts");
    target->json = json_incref((json_t *)(uintptr_t)json); /* changes only the reference count */
    TRY(compile_target(target, err));
    *target_out = GIVE(target);
    return SUCCESS;
}

const char *policy_target_canonical(const struct policy_target *target)
{
    return target->canonical;
}

void policy_target_free(struct policy_target *target)
{
    if (target == NULL) return;
    arena_free(target->arena);
    json_decref(target->json);
    if (target->known != NULL) known_truths_free(*target->known);
    free(target->known);
    free(target->canonical);
    free(target);
}

static struct result compile_group(struct arena *arena, const json_t *json, struct policy_group *group, struct error *err)
{
    const char *kind = json_text_of(json, "kind");
    const int index = kind == NULL ? -1 : word_index(group_kind_names, kind);

    if (index < 0) return failure(err, ERROR_INVALID, "groups.%s: kind: \"geo\" or \"regime\" expected", group->name);
    TRY(shape_check(shape_group_kinds[index], json, "groups.*", err));
    group->kind = (enum group_kind)index;
    return compile_texts(arena, json_object_get(json, "members"), &group->members, err);
}

static int compare_groups(const void *a, const void *b)
{
    const struct policy_group *left = a, *right = b;

    return strcmp(left->name, right->name);
}

static struct result compile_groups(struct policy_groups *groups, struct error *err)
{
    struct buffer OWNED_BUFFER canonical = BUFFER(POLICY_DOCUMENT_BYTES_MAX);
    const char *name;
    json_t *each;

    TRY(shape_check(&shape_groups, groups->json, "groups", err));
    TRY(json_write_canonical(&canonical, groups->json, err));
    sha_text(buffer_bytes(&canonical), groups->digest);
    groups->groups = arena_take(groups->arena, (json_object_size(groups->json) + 1) * sizeof *groups->groups);
    if (groups->groups == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for groups");
    json_object_foreach (groups->json, name, each) {
        groups->groups[groups->count].name = name;
        TRY(compile_group(groups->arena, each, &groups->groups[groups->count++], err));
    }
    qsort(groups->groups, groups->count, sizeof *groups->groups, compare_groups);
    return SUCCESS;
}

struct result policy_groups_new(const json_t *json, struct policy_groups **groups_out, struct error *err)
{
    OWNED(policy_groups) *groups = memory_zeroed(1, sizeof *groups);

    if (groups == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for groups");
    TRY(arena_new(POLICY_ARENA_MAX, &groups->arena, err));
    groups->serial = known_truths_serial();
    groups->json = json_incref((json_t *)(uintptr_t)json); /* changes only the reference count */
    TRY(compile_groups(groups, err));
    *groups_out = GIVE(groups);
    return SUCCESS;
}

void policy_groups_free(struct policy_groups *groups)
{
    if (groups == NULL) return;
    arena_free(groups->arena);
    json_decref(groups->json);
    free(groups);
}
