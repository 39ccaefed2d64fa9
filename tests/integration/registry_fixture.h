/*
 * tests/integration/registry_fixture.h -- an organisation with projects and repositories, to push to.
 *
 * "acme/models" and "acme/other" have their home in test/here, a folder; each test takes repositories of its own.
 */
#pragma once

#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "registry/jobs/advisory_lock.h"
#include "registry/project.h"
#include "registry/stored_blob.h"
#include "registry/stored_manifest.h"
#include "registry/tag.h"
#include "registry/upload/upload.h"
#include "storage/region_store.h"
#include "tests/support/blob.h"
#include "tests/support/stack.h"

#define ARTIFACTS 300000 /* bytes of the usual test blob: five records */

struct fixture {
    struct stack *stack;
    struct registry *registry;
    struct blob_test_folder folder;
    struct uuid organisation, models, other;
    struct principal principal;
};
extern struct fixture fixture;

#define MUST(call)                                              \
    do {                                                        \
        struct error err = {0};                                 \
        if (!(call).ok) fail_msg("%s: %s", #call, err.message); \
    } while (0)
#define MUST_FAIL(expected, call)                                                                           \
    do {                                                                                                    \
        struct error err = {0};                                                                             \
        if ((call).ok) fail_msg("%s succeeded", #call);                                                     \
        if (err.kind != (expected)) fail_msg("%s: %s (%s)", #call, err.message, error_kind_name(err.kind)); \
    } while (0)

int fixture_set_up(void **state);
int fixture_tear_down(void **state);
/** Drops everything that the registry has in memory, as kill -9 would, and opens it again. */
void fixture_restart(void);
/** Another gateway on the same database and region. */
struct registry *fixture_second_gateway(void);
/** Another gateway whose region is another folder, as if the file system of the first were not mounted. */
struct registry *fixture_gateway_elsewhere(const char *location);

/** A permit of this test; the caller frees it. */
struct permit *fixture_permit(enum action action, const struct resource *where);

/** A repository of a project, with its id if there was a push to it. */
struct resource fixture_repository(const struct uuid *project, const char *name);
/** The same with a detail. */
struct resource fixture_detail(const struct resource *repository, const char *detail);

/** A recorder under a permit of this test. */
struct job_recorder fixture_recorder(const struct permit *permit);

/** Begins a session; the answer has the secret. */
struct upload_begin fixture_begin(struct resource *repository);
/** Finds it under a fresh permit for upload.commit, which lives as long as the program. */
struct upload *fixture_find(struct registry *registry, const struct upload_begin *begun, struct job_recorder *recorder);
/** Content byte i of seed, `length` bytes; freed with free(). */
uint8_t *fixture_content(uint64_t seed, size_t length, char digest_out[DIGEST_TEXT_SIZE]);
/** Pushes content as one blob. */
void fixture_push(struct resource *repository, uint64_t seed, size_t length, char digest_out[DIGEST_TEXT_SIZE]);
/** The path of the first file of the blob with this digest. */
void fixture_path_of(const char *digest, char path_out[256]);
/** Changes a bit of one byte of a file. */
void fixture_flip(const char *path, long offset);
/** Finds a blob; NULL, with the reason, if there is none. The caller frees it and the permit. */
struct stored_blob *fixture_find_blob(const struct resource *where, const char *digest, struct permit **permit_out,
                                      struct error *err);
/** Changes a bit of one byte of the only file with a blob's content. */
void fixture_damage(const char *digest, long offset);
/** Reads a blob whose second record is damaged. Checks that the damage is found and marked. */
void fixture_read_damaged(const struct resource *where, const char *digest);
/** Reads a blob whole and compares. */
void fixture_check(const struct resource *repository, uint64_t seed, size_t length);
/** The same with any digest. */
void fixture_check_as(const struct resource *repository, const char *digest, const uint8_t *content, size_t length);
RESULT fixture_change(enum action action, const struct resource *where, struct change *change, struct error *err);
