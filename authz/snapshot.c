#include "authz/snapshot.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "authz/snapshot_priv.h"
#include "base/fault.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"

/* FNV-1a: keys are ids that we drew, or names that were admitted; nobody outside can choose many that collide. */
static uint64_t hash_more(uint64_t hash, struct bytes bytes)
{
    for (size_t i = 0; i < bytes.length; i++) hash = (hash ^ bytes.data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_of(struct bytes bytes)
{
    return hash_more(UINT64_C(0xcbf29ce484222325), bytes);
}

static uint64_t hash_of_external(const char *issuer, const char *subject)
{
    return hash_more(hash_of(bytes_of_text(issuer)) * 31, bytes_of_text(subject));
}

static struct result table_new(size_t count, struct index_table *table, struct error *err)
{
    size_t places = 8;

    while (places < count * 2) places *= 2;
    table->places = memory_zeroed(places, sizeof *table->places);
    if (table->places == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    table->mask = places - 1;
    return SUCCESS;
}

/* The next entry at or after *at whose hash may be the one; 0 at the end. Entries are numbered from 1. */
static uint32_t table_next(const struct index_table *table, size_t *at)
{
    return table->places[(*at)++ & table->mask];
}

static void table_add(struct index_table *table, uint64_t hash, size_t entry)
{
    size_t at = hash & table->mask;

    while (table->places[at & table->mask] != 0) at++;
    table->places[at & table->mask] = (uint32_t)(entry + 1);
}

const struct authz_robot *authz_snapshot_robot(const struct authz_snapshot *snapshot, const struct uuid *id)
{
    size_t at = hash_of(uuid_bytes(id)) & snapshot->robot_by_id.mask;

    for (uint32_t entry; (entry = table_next(&snapshot->robot_by_id, &at)) != 0;)
        if (uuid_equal(&snapshot->robots[entry - 1].id, id)) return &snapshot->robots[entry - 1];
    return NULL;
}

static const struct authz_robot *robot_named(const struct authz_snapshot *snapshot, struct bytes name)
{
    size_t at = hash_of(name) & snapshot->robot_by_name.mask;

    for (uint32_t entry; (entry = table_next(&snapshot->robot_by_name, &at)) != 0;)
        if (bytes_equal(name, bytes_of_text(snapshot->robots[entry - 1].name))) return &snapshot->robots[entry - 1];
    return NULL;
}

const struct authz_binding *snapshot_binding(const struct authz_snapshot *snapshot, const struct uuid *id)
{
    size_t at = hash_of(uuid_bytes(id)) & snapshot->binding_by_id.mask;

    for (uint32_t entry; (entry = table_next(&snapshot->binding_by_id, &at)) != 0;)
        if (uuid_equal(&snapshot->bindings[entry - 1].id, id)) return &snapshot->bindings[entry - 1];
    return NULL;
}

bool binding_same_principal(const struct authz_binding *a, const struct authz_binding *b)
{
    if (a->kind != b->kind) return false;
    if (a->kind == PRINCIPAL_ROBOT) return uuid_equal(&a->robot, &b->robot);
    return strcmp(a->issuer, b->issuer) == 0 && strcmp(a->subject, b->subject) == 0;
}

static bool is_binding_of(const struct authz_binding *binding, const struct principal *principal)
{
    if (binding->kind != principal->kind) return false;
    if (binding->kind == PRINCIPAL_ROBOT) return uuid_equal(&binding->robot, &principal->id);
    return strcmp(binding->issuer, principal->issuer) == 0 && strcmp(binding->subject, principal->subject) == 0;
}

const struct authz_binding *snapshot_bindings_of(const struct authz_snapshot *snapshot,
                                                 const struct principal *principal, size_t *count_out)
{
    const uint64_t hash = principal->kind == PRINCIPAL_ROBOT
                              ? hash_of(uuid_bytes(&principal->id))
                              : hash_of_external(principal->issuer, principal->subject);
    size_t at = hash & snapshot->first_binding_of.mask;

    for (uint32_t entry; (entry = table_next(&snapshot->first_binding_of, &at)) != 0;) {
        const struct authz_binding *first = &snapshot->bindings[entry - 1];
        if (!is_binding_of(first, principal)) continue;
        const struct authz_binding *end = snapshot->bindings + snapshot->binding_count, *next = first + 1;
        while (next < end && binding_same_principal(first, next)) next++;
        *count_out = (size_t)(next - first);
        return first;
    }
    *count_out = 0;
    return NULL;
}

/* Bindings of a robot before those of externals, then by who it is. */
static int compare_principals(const void *a, const void *b)
{
    const struct authz_binding *left = a, *right = b;

    if (left->kind != right->kind) return left->kind < right->kind ? -1 : 1;
    if (left->kind == PRINCIPAL_ROBOT) return memcmp(left->robot.bytes, right->robot.bytes, sizeof left->robot.bytes);
    const int issuers = strcmp(left->issuer, right->issuer);
    return issuers != 0 ? issuers : strcmp(left->subject, right->subject);
}

static struct result index_robots(struct authz_snapshot *snapshot, struct error *err)
{
    TRY(table_new(snapshot->robot_count, &snapshot->robot_by_id, err));
    TRY(table_new(snapshot->robot_count, &snapshot->robot_by_name, err));
    for (size_t i = 0; i < snapshot->robot_count; i++) {
        const struct authz_robot *robot = &snapshot->robots[i];
        const struct bytes name = bytes_of_text(robot->name);
        if (authz_snapshot_robot(snapshot, &robot->id) != NULL || robot_named(snapshot, name) != NULL)
            return failure(err, ERROR_CORRUPT, "the robot %.140s is there twice", robot->name);
        table_add(&snapshot->robot_by_id, hash_of(uuid_bytes(&robot->id)), i);
        table_add(&snapshot->robot_by_name, hash_of(name), i);
    }
    return SUCCESS;
}

static struct result index_bindings(struct authz_snapshot *snapshot, struct error *err)
{
    TRY(table_new(snapshot->binding_count, &snapshot->binding_by_id, err));
    TRY(table_new(snapshot->binding_count, &snapshot->first_binding_of, err));
    for (size_t i = 0; i < snapshot->binding_count; i++) {
        const struct authz_binding *binding = &snapshot->bindings[i];
        if (binding->role >= ROLE_COUNT || snapshot_binding(snapshot, &binding->id) != NULL)
            return failure(err, ERROR_CORRUPT, "a binding is there twice, or has a role that is not known");
        table_add(&snapshot->binding_by_id, hash_of(uuid_bytes(&binding->id)), i);
        if (i > 0 && binding_same_principal(binding, binding - 1)) continue;
        table_add(&snapshot->first_binding_of,
                  binding->kind == PRINCIPAL_ROBOT ? hash_of(uuid_bytes(&binding->robot))
                                                   : hash_of_external(binding->issuer, binding->subject),
                  i);
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

/* One issuer whose keys are unusable must not take the others' tokens away. */
static struct result add_issuers(const struct authz_parts *parts, struct authz_snapshot *snapshot, struct error *err)
{
    snapshot->issuers = memory_zeroed(parts->issuer_count + 1, sizeof(struct issuer *));
    if (snapshot->issuers == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    for (size_t i = 0; i < parts->issuer_count; i++) {
        struct error cause = {0};
        if (issuer_new(&parts->issuers[i], &snapshot->issuers[snapshot->issuer_count], &cause).ok)
            snapshot->issuer_count++;
        else if (cause.kind == ERROR_NO_MEMORY)
            return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
        else
            snapshot->bad_issuer_count++;
    }
    return SUCCESS;
}

static void destroy(struct authz_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->issuer_count; i++) issuer_free(snapshot->issuers[i]);
    free(snapshot->issuers);
    free(snapshot->robots);
    free(snapshot->bindings);
    free(snapshot->robot_by_id.places);
    free(snapshot->robot_by_name.places);
    free(snapshot->binding_by_id.places);
    free(snapshot->first_binding_of.places);
    free(snapshot);
}

static struct result fill(const struct authz_parts *parts, struct authz_snapshot *snapshot, struct error *err)
{
    TRY(copy_of(parts->robots, parts->robot_count, sizeof *parts->robots, (void **)&snapshot->robots, err));
    snapshot->robot_count = parts->robot_count;
    TRY(copy_of(parts->bindings, parts->binding_count, sizeof *parts->bindings, (void **)&snapshot->bindings, err));
    snapshot->binding_count = parts->binding_count;
    qsort(snapshot->bindings, snapshot->binding_count, sizeof *snapshot->bindings, compare_principals);
    TRY(index_robots(snapshot, err));
    TRY(index_bindings(snapshot, err));
    return add_issuers(parts, snapshot, err);
}

struct result authz_snapshot_build(const struct authz_parts *parts, struct authz_snapshot **snapshot_out,
                                   struct error *err)
{
    struct authz_snapshot *snapshot = memory_zeroed(1, sizeof *snapshot);

    if (snapshot == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    atomic_init(&snapshot->owners, 1);
    snapshot->self = snapshot;
    if (!fill(parts, snapshot, err).ok) {
        destroy(snapshot);
        return (struct result){.ok = false};
    }
    *snapshot_out = snapshot;
    return SUCCESS;
}

size_t authz_snapshot_bad_issuers(const struct authz_snapshot *snapshot)
{
    return snapshot->bad_issuer_count;
}

const struct authz_robot *authz_snapshot_login(const struct authz_snapshot *snapshot, struct bytes name,
                                               struct bytes secret, int64_t now_ms)
{
    static const struct authz_robot nobody = {.enabled = false};
    const struct authz_robot *robot = robot_named(snapshot, name);
    uint8_t hash[ROBOT_SECRET_HASH];

    const struct authz_robot *compared = robot != NULL ? robot : &nobody;
    sha256_of(secret, hash);
    const bool equal = bytes_equal_secret((struct bytes){hash, sizeof hash},
                                          (struct bytes){compared->secret_hash, sizeof compared->secret_hash});
    return equal && compared->enabled && now_ms < compared->expires_ms ? robot : NULL;
}

const struct issuer *authz_snapshot_issuer(const struct authz_snapshot *snapshot, const char *url)
{
    for (size_t i = 0; i < snapshot->issuer_count; i++)
        if (strcmp(issuer_record_of(snapshot->issuers[i])->url, url) == 0) return snapshot->issuers[i];
    return NULL;
}

const struct issuer *authz_snapshot_issuer_by_digest(const struct authz_snapshot *snapshot, struct bytes digest)
{
    for (size_t i = 0; i < snapshot->issuer_count; i++)
        if (bytes_equal(digest, bytes_of_text(issuer_digest(snapshot->issuers[i])))) return snapshot->issuers[i];
    return NULL;
}

struct authz_snapshot *authz_snapshot_keep(const struct authz_snapshot *snapshot)
{
    atomic_fetch_add(&snapshot->self->owners, 1);
    return snapshot->self;
}

void authz_snapshot_free(struct authz_snapshot *snapshot)
{
    if (snapshot != NULL && atomic_fetch_sub(&snapshot->owners, 1) == 1) destroy(snapshot);
}

struct authz_directory {
    pthread_mutex_t lock;
    struct authz_snapshot *newest;
};

struct result authz_directory_new(struct authz_directory **directory_out, struct error *err)
{
    OWNED(authz_directory) *directory = memory_zeroed(1, sizeof *directory);

    if (directory == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the directory of rights");
    (void)pthread_mutex_init(&directory->lock, NULL);
    *directory_out = GIVE(directory);
    return SUCCESS;
}

void authz_directory_publish(struct authz_directory *directory, const struct authz_snapshot *snapshot)
{
    struct authz_snapshot *kept = authz_snapshot_keep(snapshot);

    (void)pthread_mutex_lock(&directory->lock);
    struct authz_snapshot *old = directory->newest;
    directory->newest = kept;
    (void)pthread_mutex_unlock(&directory->lock);
    authz_snapshot_free(old);
}

struct authz_snapshot *authz_directory_take(struct authz_directory *directory)
{
    (void)pthread_mutex_lock(&directory->lock);
    struct authz_snapshot *snapshot = directory->newest == NULL ? NULL : authz_snapshot_keep(directory->newest);
    (void)pthread_mutex_unlock(&directory->lock);
    return snapshot;
}

void authz_directory_free(struct authz_directory *directory)
{
    if (directory == NULL) return;
    authz_snapshot_free(directory->newest);
    (void)pthread_mutex_destroy(&directory->lock);
    free(directory);
}
