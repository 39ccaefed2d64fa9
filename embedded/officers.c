/*
 * The administrator of this machine: its signing key, and the document that makes it the registry-admin, signed with the root's key. From then on a row of the database
 * alone makes nobody an administrator. As in an enrolment, each step is a process with the rights of the user whose files it needs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "documents/format/officers.h"
#include "embedded/enrolment_priv.h"

#define DOCUMENT_OF_ADMINISTRATOR OFFICERS_ADMINISTRATORS ".administrator"

/* The envelopes of both documents: the key has signed its own, and the root both. */
struct appointment {
    struct paper key[2], officer[2]; /* officer[1] is empty */
};
struct appointing {
    struct embedded *embedded;
    int papers; /* a file in memory */
};

/* ---- as the supervisor's user ---- */

static void write_fresh(const struct paths *paths, char fresh_out[PATH_SIZE + 4])
{
    (void)snprintf(fresh_out, PATH_SIZE + 4, "%s.new", paths->administrator_key);
}

/* Each start that makes an administrator signs a later version: its number is the time. */
static struct result compose_officer(const struct signing_key *key, struct buffer *payload, struct error *err)
{
    const int64_t now_ms = clock_wall_ms();
    char name[ECDSA_THUMBPRINT_SIZE];

    signing_key_name(key, name);
    const struct officer officer = {key->principal, name, OFFICERS_ADMINISTRATORS, "", 0};
    OWNED_JSON body = officer_body(&officer);
    if (body == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the administrator's document");
    const struct document_parts parts = {.kind = DOCUMENT_OFFICERS,
                                         .scope = "",
                                         .name = DOCUMENT_OF_ADMINISTRATOR,
                                         .version = (uint64_t)now_ms / 1000,
                                         .effective_ms = now_ms,
                                         .expires_ms = now_ms + ENROLMENT_LIFE_MS,
                                         .body = body};
    return document_compose(&parts, payload, err);
}

static struct result sign_key(const struct signing_key *about, const struct ecdsa_key *key, const struct ecdsa_key *root,
                              struct appointment *appointment, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(ENROLMENT_PAYLOAD_ROOM);

    TRY(enrolment_compose_key(about, &payload, err));
    TRY(enrolment_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), key, &appointment->key[0], err));
    return enrolment_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), root, &appointment->key[1], err);
}

/* Under another name until it is in force. A key of a start that was cut short is replaced, because it may be enrolled for a robot that is gone. */
static struct result make_key(const struct paths *paths, struct ecdsa_key **key_out, struct error *err)
{
    char fresh[PATH_SIZE + 4];

    write_fresh(paths, fresh);
    if (unlink(fresh) != 0 && errno != ENOENT)
        return failure(err, ERROR_UNAVAILABLE, "can't remove %.200s: %s", fresh, strerror(errno));
    return embedded_key_at(fresh, key_out, err);
}

static struct result sign_all(void *context, struct error *err)
{
    const struct appointing *appointing = context;
    const struct paths *paths = &appointing->embedded->paths;
    struct buffer OWNED_BUFFER payload = BUFFER(ENROLMENT_PAYLOAD_ROOM);
    struct signing_key about = {.purpose = SIGNING_SIGN};
    struct appointment appointment = {.key[0].length = 0};
    OWNED(ecdsa_key) *root = NULL;
    OWNED(ecdsa_key) *key = NULL;

    TRY(ecdsa_key_load(paths->approver, &root, err));
    TRY(enrolment_read_robot(paths->admin, &about, err));
    TRY(make_key(paths, &key, err));
    ecdsa_key_public(key, about.point);
    TRY(sign_key(&about, key, root, &appointment, err));
    TRY(compose_officer(&about, &payload, err));
    TRY(enrolment_sign(DOCUMENT_OFFICERS, buffer_bytes(&payload), root, &appointment.officer[0], err));
    return file_write_at(appointing->papers, &appointment, sizeof appointment, 0, err);
}

static struct result keep_key(void *context, struct error *err)
{
    const struct appointing *appointing = context;
    char fresh[PATH_SIZE + 4];

    write_fresh(&appointing->embedded->paths, fresh);
    return file_rename(fresh, appointing->embedded->paths.administrator_key, err);
}

/* ---- as the gateway's user ---- */

/* What sijil-keyd can't pin yet, because witnesses have to cosign the log first, the gateway has pinned later. */
static struct result put_in_force_with(struct office *office, const struct appointing *appointing, struct error *err)
{
    struct appointment appointment;
    struct root_terms terms;
    struct error later = {0};

    TRY(file_read_at(appointing->papers, &appointment, sizeof appointment, 0, err));
    TRY(office_open(&appointing->embedded->settings, office, err));
    TRY(keyd_root_terms(office->keyd, &terms, err));
    TRY(office_record(office, ACTION_KEY_APPROVE, appointment.key, err));
    /* sijil-keyd would refuse it for good, and nobody could sign this version any more. */
    if (terms.root > 1)
        log_line(LOG_WARNING, "the root is several persons: the administrator is one when two of them have signed its document",
                 NULL);
    else TRY(office_record(office, ACTION_OFFICERS_APPROVE, appointment.officer, err));
    const struct document_source source = {office->pg, office->keyd, office->sequencer};
    if (document_view_refresh(office->view, &source, &later).ok) return SUCCESS;
    log_error("the administrator's document is recorded, and comes into force later", &later);
    return SUCCESS;
}

static struct result put_in_force(void *context, struct error *err)
{
    struct office office = {.keyd = NULL};
    const struct result done = put_in_force_with(&office, context, err);

    office_close(&office);
    return done;
}

struct result officers_appoint(struct embedded *embedded, struct error *err)
{
    OWNED_FD memory = memfd_create("papers", MFD_CLOEXEC);
    struct appointing appointing = {embedded, memory};

    if (memory < 0) return failure(err, ERROR_UNAVAILABLE, "no file in memory: %s", strerror(errno));
    TRY(step_run(&embedded->users.self, sign_all, &appointing, err));
    TRY(step_run(&embedded->users.gateway, put_in_force, &appointing, err));
    TRY(step_run(&embedded->users.self, keep_key, &appointing, err));
    log_line(LOG_INFO, "made the signing key of the administrator", "key", embedded->paths.administrator_key, NULL);
    return SUCCESS;
}
