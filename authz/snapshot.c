#include "authz/snapshot.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "authz/robot_certificate.h"
#include "authz/snapshot_priv.h"
#include "base/fault.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"

static int compare_ids(const struct uuid *a, const struct uuid *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

const struct rights_part *snapshot_part(const struct authz_snapshot *snapshot, const struct uuid *organisation)
{
    size_t low = 0, high = snapshot->part_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = compare_ids(organisation, &snapshot->parts[middle]->organisation);
        if (order == 0) return snapshot->parts[middle];
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}

bool snapshot_next_part(const struct authz_snapshot *snapshot, const struct uuid *organisation, unsigned *at,
                        const struct rights_part **part_out)
{
    *part_out = *at == 0 ? snapshot->parts[0] : NULL;
    if (*at == 1 && !uuid_is_nil(organisation)) *part_out = snapshot_part(snapshot, organisation);
    (*at)++;
    return *part_out != NULL;
}

static const struct authz_robot *robot_at(const struct authz_snapshot *snapshot, uint64_t entry)
{
    return &snapshot->parts[entry >> 32]->robots[entry & UINT32_MAX];
}

const struct authz_robot *authz_snapshot_robot(const struct authz_snapshot *snapshot, const struct uuid *id)
{
    uint64_t at = rights_hash(uuid_bytes(id));

    for (uint64_t entry; (entry = index_next(&snapshot->robots->by_id, &at)) != 0;)
        if (uuid_equal(&robot_at(snapshot, entry - 1)->id, id)) return robot_at(snapshot, entry - 1);
    return NULL;
}

const struct authz_robot *authz_snapshot_robot_named(const struct authz_snapshot *snapshot, struct bytes name)
{
    uint64_t at = rights_hash(name);

    for (uint64_t entry; (entry = index_next(&snapshot->robots->by_name, &at)) != 0;)
        if (bytes_equal(name, bytes_of_text(robot_at(snapshot, entry - 1)->name))) return robot_at(snapshot, entry - 1);
    return NULL;
}

bool binding_same_principal(const struct authz_binding *a, const struct authz_binding *b)
{
    if (a->kind != b->kind) return false;
    if (a->kind == PRINCIPAL_ROBOT) return uuid_equal(&a->robot, &b->robot);
    return strcmp(a->issuer, b->issuer) == 0 && strcmp(a->subject, b->subject) == 0;
}

static struct result index_part(struct authz_snapshot *snapshot, size_t number, struct error *err)
{
    const struct rights_part *part = snapshot->parts[number];

    for (size_t i = 0; i < part->robot_count; i++) {
        const struct authz_robot *robot = &part->robots[i];
        const struct bytes name = bytes_of_text(robot->name);
        if (authz_snapshot_robot(snapshot, &robot->id) != NULL || authz_snapshot_robot_named(snapshot, name) != NULL)
            return failure(err, ERROR_CORRUPT, "the robot %.140s is there twice", robot->name);
        index_add(&snapshot->robots->by_id, rights_hash(uuid_bytes(&robot->id)), (uint64_t)number << 32 | i);
        index_add(&snapshot->robots->by_name, rights_hash(name), (uint64_t)number << 32 | i);
    }
    return SUCCESS;
}

static void index_free(struct robot_index *index)
{
    if (index == NULL || atomic_fetch_sub(&index->owners, 1) != 1) return;
    free(index->by_id.slots);
    free(index->by_name.slots);
    free(index);
}

/* `shared` NULL: there is none. */
static struct result index_robots(struct authz_snapshot *snapshot, struct robot_index *shared, struct error *err)
{
    size_t count = 0;

    snapshot->robots = shared;
    if (shared != NULL) {
        atomic_fetch_add(&shared->owners, 1);
        return SUCCESS;
    }
    snapshot->robots = memory_zeroed(1, sizeof *snapshot->robots);
    if (snapshot->robots == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    atomic_init(&snapshot->robots->owners, 1);
    for (size_t i = 0; i < snapshot->part_count; i++) count += snapshot->parts[i]->robot_count;
    TRY(index_new(count, &snapshot->robots->by_id, err));
    TRY(index_new(count, &snapshot->robots->by_name, err));
    for (size_t i = 0; i < snapshot->part_count; i++) TRY(index_part(snapshot, i, err));
    return SUCCESS;
}

static void parts_free(struct rights_part **parts, size_t count)
{
    for (size_t i = 0; i < count; i++) rights_part_free(parts[i]);
    free(parts);
}

static void destroy(struct authz_snapshot *snapshot)
{
    parts_free(snapshot->parts, snapshot->part_count);
    issuer_list_free(snapshot->issuers);
    trust_rules_free(snapshot->rules);
    scim_persons_free(snapshot->persons);
    index_free(snapshot->robots);
    free(snapshot);
}

struct result snapshot_assemble(struct rights_part **parts, size_t count, const struct snapshot_shared *shared,
                                struct authz_snapshot **snapshot_out, struct error *err)
{
    assert(count > 0 && uuid_is_nil(&parts[0]->organisation));
    struct authz_snapshot *snapshot = memory_zeroed(1, sizeof *snapshot);

    if (snapshot == NULL) {
        parts_free(parts, count);
        return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    }
    atomic_init(&snapshot->owners, 1);
    snapshot->self = snapshot;
    snapshot->parts = parts;
    snapshot->part_count = count;
    snapshot->issuers = shared->issuers;
    atomic_fetch_add(&shared->issuers->owners, 1);
    snapshot->rules = trust_rules_keep(shared->rules);
    snapshot->persons = scim_persons_keep(shared->persons);
    if (!index_robots(snapshot, shared->robots, err).ok) {
        destroy(snapshot);
        return (struct result){.ok = false};
    }
    *snapshot_out = snapshot;
    return SUCCESS;
}

const struct trust_rules *authz_snapshot_rules(const struct authz_snapshot *snapshot)
{
    return snapshot->rules;
}

const struct scim_persons *authz_snapshot_persons(const struct authz_snapshot *snapshot)
{
    return snapshot->persons;
}

size_t authz_snapshot_bad_issuers(const struct authz_snapshot *snapshot)
{
    return snapshot->issuers->bad_count;
}

const struct authz_robot *authz_snapshot_login(const struct authz_snapshot *snapshot, struct bytes name, struct bytes secret,
                                               int64_t now_ms)
{
    static const struct authz_robot nobody = {.enabled = false};
    const struct authz_robot *robot = authz_snapshot_robot_named(snapshot, name);
    uint8_t hash[ROBOT_SECRET_HASH];

    const struct authz_robot *compared = robot != NULL ? robot : &nobody;
    robot_secret_hash(secret, hash);
    const bool equal = bytes_equal_secret((struct bytes){hash, sizeof hash},
                                          (struct bytes){compared->secret_hash, sizeof compared->secret_hash});
    const bool equals_previous = bytes_equal_secret((struct bytes){hash, sizeof hash},
                                                    (struct bytes){compared->previous_hash, sizeof compared->previous_hash});
    const bool is_good = equal || (equals_previous && now_ms < compared->previous_until_ms);
    return is_good && compared->enabled && now_ms < compared->expires_ms ? robot : NULL;
}

int64_t authz_robot_replaced(const struct authz_robot *robot, struct bytes secret)
{
    uint8_t hash[ROBOT_SECRET_HASH];

    robot_secret_hash(secret, hash);
    const bool is_newest =
        bytes_equal_secret((struct bytes){hash, sizeof hash}, (struct bytes){robot->secret_hash, sizeof robot->secret_hash});
    return is_newest ? robot->previous_until_ms : -1;
}

const struct issuer *authz_snapshot_issuer(const struct authz_snapshot *snapshot, const char *url)
{
    return issuer_list_find(snapshot->issuers, url);
}

const struct issuer *authz_snapshot_issuer_by_digest(const struct authz_snapshot *snapshot, struct bytes digest)
{
    return issuer_list_find_digest(snapshot->issuers, digest);
}

size_t authz_snapshot_wishes(const struct authz_snapshot *snapshot, struct uuid *ids, size_t room)
{
    size_t count = 0;

    for (size_t i = 0; i < snapshot->issuers->count && count < room; i++)
        if (issuer_take_wish(snapshot->issuers->issuers[i])) ids[count++] = issuer_record_of(snapshot->issuers->issuers[i])->id;
    return count;
}

void authz_snapshot_confirm(const struct authz_snapshot *snapshot, const char *url, int64_t confirmed_ms)
{
    const struct issuer *issuer = issuer_list_find(snapshot->issuers, url);

    if (issuer != NULL) issuer_confirm(issuer, confirmed_ms);
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
