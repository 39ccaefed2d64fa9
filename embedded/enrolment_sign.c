/* Enrolment: what the root's key signs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "documents/format/runner_invitation.h"
#include "documents/format/signing_key.h"
#include "embedded/enrolment_priv.h"

#define DAY_MS     INT64_C(86400000)
#define LOGIN_ROOM 4096

static struct result invite(const struct papers *papers, const struct ecdsa_key *root, struct buffer *payload, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUNNER_INVITATION_MAX);
    OWNED_JSON places = json_pack("[s]", papers->country);
    OWNED(runner_invitation) *invitation = NULL;
    const int64_t now_ms = clock_wall_ms();

    if (places == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an invitation");
    const struct runner_invitation_parts parts = {.audience = papers->pins.audience,
                                                  .scope = "",
                                                  .pool = "default",
                                                  .region = EMBEDDED_REGION,
                                                  .isolation = papers->place.isolation,
                                                  .runner = uuid_random(),
                                                  .jurisdictions = places,
                                                  .devices = papers->place.devices,
                                                  .assurance = 1, /* nobody has looked at this machine */
                                                  .issued_ms = now_ms,
                                                  .expires_ms = now_ms + DAY_MS,
                                                  .runner_expires_ms = now_ms + ENROLMENT_LIFE_MS};
    TRY(runner_invitation_write(&parts, root, &envelope, err));
    TRY(runner_invitation_read(buffer_bytes(&envelope), &invitation, err));
    return runner_invitation_document(invitation, papers->point, payload, err);
}

struct result enrolment_sign(enum document_kind kind, struct bytes payload, const struct ecdsa_key *key, struct paper *paper,
                             struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(ENROLMENT_ENVELOPE_ROOM);

    TRY(document_sign(kind, payload, key, &envelope, err));
    return paper_write(paper, buffer_bytes(&envelope), err);
}

static struct result approve_runner(struct papers *papers, const struct ecdsa_key *root, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(ENROLMENT_PAYLOAD_ROOM);

    TRY(invite(papers, root, &payload, err));
    return enrolment_sign(DOCUMENT_RUNNER, buffer_bytes(&payload), root, &papers->runner[1], err);
}

struct result enrolment_read_robot(const char *file, struct signing_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(LOGIN_ROOM);
    uint8_t *ignored = NULL;
    OWNED_JSON login = NULL;
    struct uuid id;

    TRY(buffer_reserve(&text, LOGIN_ROOM, &ignored, err)); /* growing would leave a copy of the secret */
    struct result read = file_read(file, &text, err);
    if (read.ok) read = json_read(buffer_bytes(&text), LOGIN_ROOM, &login, err);
    secret_wipe(text.data, text.capacity);
    TRY(read);
    const char *robot = json_text_of(login, "id");
    if (robot == NULL || !uuid_parse(bytes_of_text(robot), &id))
        return failure(err, ERROR_CORRUPT, "%.200s does not name its robot", file);
    (void)snprintf(key->principal, sizeof key->principal, "robot:%s", robot);
    return SUCCESS;
}

struct result enrolment_compose_key(const struct signing_key *key, struct buffer *payload, struct error *err)
{
    OWNED_JSON body = signing_key_body(key);
    char name[ECDSA_THUMBPRINT_SIZE];
    const int64_t now_ms = clock_wall_ms();

    if (body == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a key");
    signing_key_name(key, name);
    const struct document_parts parts = {.kind = DOCUMENT_SIGNING_KEY,
                                         .scope = "",
                                         .name = name,
                                         .version = 1,
                                         .effective_ms = now_ms,
                                         .expires_ms = now_ms + ENROLMENT_LIFE_MS,
                                         .body = body};
    return document_compose(&parts, payload, err);
}

/* Under another name until it is in force, so that a key at the right place can be used. */
static struct result approve_trainer(const struct paths *paths, struct papers *papers, const struct ecdsa_key *root,
                                     struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(ENROLMENT_PAYLOAD_ROOM);
    struct signing_key about = {.purpose = SIGNING_SIGN};
    char fresh[PATH_SIZE + 4];
    OWNED(ecdsa_key) *key = NULL;

    (void)snprintf(fresh, sizeof fresh, "%s.new", paths->trainer_key);
    TRY(enrolment_read_robot(paths->trainer, &about, err));
    if (unlink(fresh) != 0 && errno != ENOENT)
        return failure(err, ERROR_UNAVAILABLE, "can't remove %.200s: %s", fresh, strerror(errno));
    TRY(embedded_key_at(fresh, &key, err));
    ecdsa_key_public(key, about.point);
    TRY(enrolment_compose_key(&about, &payload, err));
    TRY(enrolment_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), key, &papers->trainer[0], err));
    return enrolment_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), root, &papers->trainer[1], err);
}

struct result enrolment_approve(void *context, struct error *err)
{
    const struct desk *desk = context;
    const struct paths *paths = &desk->embedded->paths;
    OWNED(ecdsa_key) *root = NULL;
    PAPERS(papers);

    TRY(papers_read(desk, &papers, err));
    TRY(ecdsa_key_load(paths->approver, &root, err));
    if (!papers.is_enrolled) TRY(approve_runner(&papers, root, err));
    if (!papers.has_trainer) TRY(approve_trainer(paths, &papers, root, err));
    return papers_write(desk, &papers, err);
}

struct result enrolment_mark(void *context, struct error *err)
{
    const struct desk *desk = context;
    PAPERS(papers);

    TRY(papers_read(desk, &papers, err));
    return file_replace(desk->embedded->paths.runner_mark, paper_bytes(&papers.runner[0]), 0600, err);
}

struct result enrolment_keep_trainer(void *context, struct error *err)
{
    const struct desk *desk = context;
    const char *path = desk->embedded->paths.trainer_key;
    char fresh[PATH_SIZE + 4];

    (void)snprintf(fresh, sizeof fresh, "%s.new", path);
    return file_rename(fresh, path, err);
}
