#include "authz/rights_part_priv.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/snapshot_priv.h"
#include "base/memory.h"
#include "crypto/random.h"

static uint8_t hash_key[TABLE_KEY_SIZE];
static pthread_once_t hash_key_is_drawn = PTHREAD_ONCE_INIT;

static void draw_hash_key(void)
{
    random_bytes(hash_key, sizeof hash_key);
}

uint64_t rights_hash(struct bytes name)
{
    (void)pthread_once(&hash_key_is_drawn, draw_hash_key);
    return table_hash(hash_key, name);
}

struct result index_new(size_t count, struct index_table *table, struct error *err)
{
    size_t slots = 8;

    while (slots < count * 2) slots *= 2;
    table->slots = memory_zeroed(slots, sizeof *table->slots);
    if (table->slots == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    table->mask = slots - 1;
    return SUCCESS;
}

uint64_t index_next(const struct index_table *table, uint64_t *at)
{
    return table->slots[(*at)++ & table->mask];
}

void index_add(struct index_table *table, uint64_t hash, uint64_t entry)
{
    uint64_t at = hash;

    while (table->slots[at & table->mask] != 0) at++;
    table->slots[at & table->mask] = entry + 1;
}

static uint64_t hash_of_external(const char *issuer, const char *subject)
{
    return rights_hash(bytes_of_text(issuer)) * 31 + rights_hash(bytes_of_text(subject));
}

static uint64_t hash_of_grantee(const struct authz_binding *binding)
{
    return binding->kind == PRINCIPAL_ROBOT ? rights_hash(uuid_bytes(&binding->robot))
                                            : hash_of_external(binding->issuer, binding->subject);
}

const struct authz_binding *part_binding(const struct rights_part *part, const struct uuid *id)
{
    uint64_t at = rights_hash(uuid_bytes(id));

    for (uint64_t entry; (entry = index_next(&part->binding_by_id, &at)) != 0;)
        if (uuid_equal(&part->bindings[entry - 1].id, id)) return &part->bindings[entry - 1];
    return NULL;
}

static bool is_binding_of(const struct authz_binding *binding, const struct principal *principal)
{
    if (binding->kind != principal->kind) return false;
    if (binding->kind == PRINCIPAL_ROBOT) return uuid_equal(&binding->robot, &principal->id);
    return strcmp(binding->issuer, principal->issuer) == 0 && strcmp(binding->subject, principal->subject) == 0;
}

const struct authz_binding *part_bindings_of(const struct rights_part *part, const struct principal *principal, size_t *count_out)
{
    uint64_t at = principal->kind == PRINCIPAL_ROBOT ? rights_hash(uuid_bytes(&principal->id))
                                                     : hash_of_external(principal->issuer, principal->subject);

    for (uint64_t entry; (entry = index_next(&part->first_binding_of, &at)) != 0;) {
        const struct authz_binding *first = &part->bindings[entry - 1];
        if (!is_binding_of(first, principal)) continue;
        const struct authz_binding *end = part->bindings + part->binding_count, *next = first + 1;
        while (next < end && binding_same_principal(first, next)) next++;
        *count_out = (size_t)(next - first);
        return first;
    }
    *count_out = 0;
    return NULL;
}

static void key_of(const struct authz_binding *binding, char key_out[PRINCIPAL_KEY_SIZE])
{
    struct principal principal = {.kind = PRINCIPAL_EXTERNAL};

    (void)snprintf(principal.issuer, sizeof principal.issuer, "%s", binding->issuer);
    (void)snprintf(principal.subject, sizeof principal.subject, "%s", binding->subject);
    principal_key(&principal, key_out);
}

const struct authz_binding *part_binding_of_key(const struct rights_part *part, const char *key)
{
    uint64_t at = rights_hash(bytes_of_text(key));
    char other[PRINCIPAL_KEY_SIZE];

    for (uint64_t entry; (entry = index_next(&part->first_of_key, &at)) != 0;) {
        key_of(&part->bindings[entry - 1], other);
        if (strcmp(other, key) == 0) return &part->bindings[entry - 1];
    }
    return NULL;
}

static void index_key(struct rights_part *part, size_t at)
{
    char key[PRINCIPAL_KEY_SIZE];

    if (part->bindings[at].kind != PRINCIPAL_EXTERNAL) return;
    key_of(&part->bindings[at], key);
    index_add(&part->first_of_key, rights_hash(bytes_of_text(key)), at);
}

/* Robots before external principals, then by the identity of the principal. */
static int compare_principals(const void *a, const void *b)
{
    const struct authz_binding *left = a, *right = b;

    if (left->kind != right->kind) return left->kind < right->kind ? -1 : 1;
    if (left->kind == PRINCIPAL_ROBOT) return memcmp(left->robot.bytes, right->robot.bytes, sizeof left->robot.bytes);
    const int issuers = strcmp(left->issuer, right->issuer);
    return issuers != 0 ? issuers : strcmp(left->subject, right->subject);
}

static struct result index_bindings(struct rights_part *part, struct error *err)
{
    TRY(index_new(part->binding_count, &part->binding_by_id, err));
    TRY(index_new(part->binding_count, &part->first_binding_of, err));
    TRY(index_new(part->binding_count, &part->first_of_key, err));
    for (size_t i = 0; i < part->binding_count; i++) {
        const struct authz_binding *binding = &part->bindings[i];
        if (binding->role > ROLE_OWN || part_binding(part, &binding->id) != NULL)
            return failure(err, ERROR_CORRUPT, "a binding is there twice, or has a role that is not known");
        index_add(&part->binding_by_id, rights_hash(uuid_bytes(&binding->id)), i);
        if (i > 0 && binding_same_principal(binding, binding - 1)) continue;
        index_add(&part->first_binding_of, hash_of_grantee(binding), i);
        index_key(part, i);
    }
    return SUCCESS;
}

static struct result copy_of(const void *source, size_t count, size_t size, void **copy_out, struct error *err)
{
    void *copy = memory_zeroed(count + 1, size);

    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    if (count > 0) memcpy(copy, source, count * size);
    *copy_out = copy;
    return SUCCESS;
}

static struct result fill(const struct authz_parts *parts, struct rights_part *part, struct error *err)
{
    TRY(copy_of(parts->robots, parts->robot_count, sizeof *parts->robots, (void **)&part->robots, err));
    part->robot_count = parts->robot_count;
    TRY(copy_of(parts->bindings, parts->binding_count, sizeof *parts->bindings, (void **)&part->bindings, err));
    part->binding_count = parts->binding_count;
    for (size_t i = 0; i < part->binding_count; i++) part->endless_count += part->bindings[i].expires_ms == 0;
    for (size_t i = 0; i < part->binding_count; i++)
        if (part->bindings[i].role == ROLE_OWN)
            own_role_resolve(parts->rules, &part->bindings[i].organisation, &part->bindings[i].own);
    qsort(part->bindings, part->binding_count, sizeof *part->bindings, compare_principals);
    return index_bindings(part, err);
}

NO_LEAK_BEGIN /* its last holder frees it */
    struct result
    rights_part_new(const struct uuid *organisation, const struct authz_parts *parts, struct rights_part **part_out,
                    struct error *err)
{
    OWNED(rights_part) *part = memory_zeroed(1, sizeof *part);

    if (part == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    atomic_init(&part->owners, 1);
    part->organisation = *organisation;
    TRY(fill(parts, part, err));
    *part_out = GIVE(part);
    return SUCCESS;
}
NO_LEAK_END

struct rights_part *rights_part_keep(struct rights_part *part)
{
    atomic_fetch_add(&part->owners, 1);
    return part;
}

void rights_part_free(struct rights_part *part)
{
    if (part == NULL || atomic_fetch_sub(&part->owners, 1) != 1) return;
    free(part->robots);
    free(part->bindings);
    free(part->binding_by_id.slots);
    free(part->first_binding_of.slots);
    free(part->first_of_key.slots);
    free(part);
}
