/*
 * How the runner of this machine is enrolled: its document has the signature of its own key and that of the root, which embedded/ holds.
 *
 * Each step is a process with the rights of the user whose files it needs. The papers go from step to step in memory: so the runner never
 * sees the root's key, the supervisor sees none of the papers, and the gateway's user sees no private key at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "embedded/enrolment_priv.h"
#include "policy/decider/set_install.h"
#include "runner/state/runner_state.h"

#define CA_ROOM      ((size_t)16 * 1024) /* one certificate of ours */
#define STEP_MS      10000 /* of a step that the runner's user could stop. Meanwhile nobody starts again what ends */
#define LOOK_MS      60000 /* a sandbox is made */
#define HTTPS        "https://"
#define ANY_V4       "0.0.0.0"
#define ANY_V6       "::"
#define DEFAULT_PORT ":443"

struct result papers_read(const struct desk *desk, struct papers *papers, struct error *err)
{
    return file_read_at(desk->papers, papers, sizeof *papers, 0, err);
}

struct result papers_write(const struct desk *desk, const struct papers *papers, struct error *err)
{
    return file_write_at(desk->papers, papers, sizeof *papers, 0, err);
}

struct bytes paper_bytes(const struct paper *paper)
{
    return (struct bytes){paper->bytes, paper->length <= sizeof paper->bytes ? paper->length : 0};
}

struct result paper_write(struct paper *paper, struct bytes text, struct error *err)
{
    if (text.length > sizeof paper->bytes) return failure(err, ERROR_LIMIT, "a paper of an enrolment is too long");
    memcpy(paper->bytes, text.data, text.length);
    paper->length = text.length;
    return SUCCESS;
}

/* ---- as the supervisor's user: what the runner has to know ---- */

/*
 * The runner's folder belongs to the runner's user, and so to code that broke out of its sandbox. So what is missing there is no reason to enrol anything:
 * the mark lies where root alone writes. It has the runner's document; it is empty if the runner was enrolled before there were marks.
 */
static struct result read_mark(const struct paths *paths, struct papers *papers, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(ENROLMENT_ENVELOPE_ROOM);

    TRY(file_is_there(paths->runner_mark, &papers->is_enrolled, err));
    if (!papers->is_enrolled) return SUCCESS;
    TRY(file_read(paths->runner_mark, &envelope, err));
    return paper_write(&papers->runner[0], buffer_bytes(&envelope), err);
}

/* An address of this machine, if the gateway listens there, because a connection to a name may go through other machines. */
static void find_host(const struct settings *settings, char host_out[REGISTRY_HOST_SIZE])
{
    const char *address = settings->listen_address, *url = settings->public_url + strlen(HTTPS);
    const bool is_v6 = strchr(address, ':') != NULL;
    const bool is_local = strcmp(address, ANY_V4) == 0 || strcmp(address, ANY_V6) == 0 || strcmp(address, "::1") == 0 ||
                          strncmp(address, "127.", 4) == 0;

    if (is_local)
        (void)snprintf(host_out, REGISTRY_HOST_SIZE, "%s:%lld", is_v6 ? "[::1]" : "127.0.0.1", (long long)settings->listen_port);
    else if (strchr(url[0] == '[' ? strchr(url, ']') : url, ':') != NULL)
        (void)snprintf(host_out, REGISTRY_HOST_SIZE, "%.250s", url);
    else (void)snprintf(host_out, REGISTRY_HOST_SIZE, "%.250s" DEFAULT_PORT, url);
}

static struct result gather(void *context, struct error *err)
{
    const struct desk *desk = context;
    const struct paths *paths = &desk->embedded->paths;
    struct buffer OWNED_BUFFER ca = BUFFER(CA_ROOM);
    PAPERS(papers);
    bool has_login = false;

    TRY(read_mark(paths, &papers, err));
    TRY(file_is_there(paths->runner_document, &papers.has_runner, err));
    TRY(file_is_there(paths->trainer, &has_login, err));
    TRY(file_is_there(paths->trainer_key, &papers.has_trainer, err));
    papers.has_trainer = papers.has_trainer || !has_login; /* without the robot there is nobody to have a key */
    find_host(&desk->embedded->settings, papers.pins.host);
    TRY(file_read(paths->authority, &ca, err));
    TRY(paper_write(&papers.ca, buffer_bytes(&ca), err));
    return papers_write(desk, &papers, err);
}

/* ---- as the runner's user ---- */

/* A key whose document is missing is of an enrolment that was cut short: another key is made, because a key is enrolled only once. */
static struct result make_runner(const struct paths *paths, struct papers *papers, struct error *err)
{
    OWNED(runner_state) *state = NULL;
    char old[PATH_SIZE];

    TRY(path_join(old, paths->runner_state, "key.pem", err));
    if (unlink(old) != 0 && errno != ENOENT) return failure(err, ERROR_UNAVAILABLE, "can't remove %s: %s", old, strerror(errno));
    TRY(runner_state_begin(paths->runner_state, &state, err));
    ecdsa_key_public(state->key, papers->point);
    return SUCCESS;
}

/* The address may be another one at each start, and the authority, too. The pinned keys stay. */
static struct result refresh_runner(const struct paths *paths, const struct papers *papers, struct error *err)
{
    struct buffer OWNED_BUFFER ca = BUFFER(CA_ROOM);
    OWNED(runner_state) *state = NULL;

    TRY(runner_state_open(paths->runner_state, &state, err));
    TRY(file_read(state->ca_file, &ca, err));
    if (strcmp(state->registry.host, papers->pins.host) == 0 && bytes_equal(buffer_bytes(&ca), paper_bytes(&papers->ca)))
        return SUCCESS;
    struct registry_pins pins = state->registry;
    memcpy(pins.host, papers->pins.host, sizeof pins.host);
    return runner_state_keep_registry(state, &pins, paper_bytes(&papers->ca), err);
}

/* As the supervisor's user, which alone puts a process into the runner's control groups. */
static struct result look(void *context, struct error *err)
{
    const struct desk *desk = context;
    PAPERS(papers);

    TRY(papers_read(desk, &papers, err));
    if (papers.has_runner || papers.is_enrolled) return SUCCESS;
    TRY(runner_probe(desk->embedded, &papers.place, err));
    return papers_write(desk, &papers, err);
}

static struct result begin(void *context, struct error *err)
{
    const struct desk *desk = context;
    const struct paths *paths = &desk->embedded->paths;
    PAPERS(papers);

    TRY(papers_read(desk, &papers, err));
    if (papers.has_runner) return refresh_runner(paths, &papers, err);
    if (papers.is_enrolled) return SUCCESS;
    TRY(make_runner(paths, &papers, err));
    return papers_write(desk, &papers, err);
}

static struct result sign_own(void *context, struct error *err)
{
    const struct desk *desk = context;
    struct buffer OWNED_BUFFER envelope = BUFFER(ENROLMENT_ENVELOPE_ROOM);
    OWNED(runner_state) *state = NULL;
    OWNED(document) *document = NULL;
    PAPERS(papers);

    TRY(papers_read(desk, &papers, err));
    const struct bytes signed_by_root = paper_bytes(&papers.runner[1]);
    TRY(document_read(&signed_by_root, 1, &document, err));
    TRY(runner_state_begin(desk->embedded->paths.runner_state, &state, err));
    TRY(document_sign(DOCUMENT_RUNNER, document_payload(document), state->key, &envelope, err));
    TRY(paper_write(&papers.runner[0], buffer_bytes(&envelope), err));
    return papers_write(desk, &papers, err);
}

static struct result keep_papers(const struct desk *desk, const struct papers *papers, struct error *err)
{
    OWNED(runner_state) *state = NULL;

    TRY(runner_state_begin(desk->embedded->paths.runner_state, &state, err));
    TRY(runner_state_keep_registry(state, &papers->pins, paper_bytes(&papers->ca), err));
    return runner_state_keep_document(state, paper_bytes(&papers->runner[0]), err);
}

/* The document is kept last. If it is lost, or a crash came before, it is kept again, if the key is still there. */
static struct result keep_runner(void *context, struct error *err)
{
    const struct desk *desk = context;
    struct error why = {0};
    PAPERS(papers);

    TRY(papers_read(desk, &papers, err));
    if (keep_papers(desk, &papers, &why).ok) return SUCCESS;
    if (!papers.is_enrolled) return failure(err, why.kind, "%s", why.message);
    return failure(
        err, ERROR_DENIED,
        "its runner was enrolled, and the folder has not its key any more (did code break out of a run?): revoke that runner, stop, "
        "remove the folder and %.90s, start",
        desk->embedded->paths.runner_mark);
}

/* ---- as the gateway's user, which alone reaches sijil-keyd and the database ---- */

static struct result read_country(const struct policy_set *set, char country_out[3], struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED_JSON json = NULL;

    TRY(policy_set_write(set, &text, err));
    TRY(json_read(buffer_bytes(&text), POLICY_SET_BYTES_MAX, &json, err));
    const char *geo = json_text_of(json_object_get(json_object_get(json, "regions"), EMBEDDED_REGION), "geo");
    if (geo == NULL || strcspn(geo, "/") != 2)
        return failure(err, ERROR_NOT_FOUND, "the policies do not say in which country the region " EMBEDDED_REGION " is");
    (void)snprintf(country_out, 3, "%.2s", geo);
    return SUCCESS;
}

/* Of the set in force: an officer may have corrected the first one. */
static struct result find_country(const struct office *office, char country_out[3], struct error *err)
{
    struct policy_set_source source = {.pg = office->pg, .keyd = office->keyd, .sequencer = office->sequencer};
    OWNED(policy_set) *set = NULL;

    TRY(policy_set_load(&source, NULL, &set, err));
    return set != NULL ? read_country(set, country_out, err) : failure(err, ERROR_NOT_FOUND, "no policy set is in force");
}

static struct result identify_with(struct office *office, const struct desk *desk, struct error *err)
{
    const struct keyd_identity *identity = &office->identity;
    PAPERS(papers);

    TRY(office_open(&desk->embedded->settings, office, err));
    TRY(papers_read(desk, &papers, err));
    TRY(find_country(office, papers.country, err));
    (void)snprintf(papers.pins.audience, sizeof papers.pins.audience, "%s", identity->origin);
    (void)snprintf(papers.pins.log_key, sizeof papers.pins.log_key, "%s", identity->log_vkey);
    memcpy(papers.pins.signer, identity->document_public, sizeof papers.pins.signer);
    memcpy(papers.pins.root, identity->approver_root, sizeof papers.pins.root);
    return papers_write(desk, &papers, err);
}

static struct result identify(void *context, struct error *err)
{
    struct office office = {.keyd = NULL};
    const struct result done = identify_with(&office, context, err);

    office_close(&office);
    return done;
}

static struct result put_in_force_with(struct office *office, const struct desk *desk, struct error *err)
{
    PAPERS(papers);

    TRY(papers_read(desk, &papers, err));
    TRY(office_open(&desk->embedded->settings, office, err));
    if (!papers.is_enrolled) TRY(office_record(office, ACTION_RUNNER_APPROVE, papers.runner, err));
    if (!papers.has_trainer) TRY(office_record(office, ACTION_KEY_APPROVE, papers.trainer, err));
    const struct document_source source = {office->pg, office->keyd, office->sequencer};
    return document_view_refresh(office->view, &source, err);
}

static struct result put_in_force(void *context, struct error *err)
{
    struct office office = {.keyd = NULL};
    const struct result done = put_in_force_with(&office, context, err);

    office_close(&office);
    return done;
}

/* ---- the order of the steps ---- */

static struct result enrol(struct desk *desk, struct error *err)
{
    const struct users *users = &desk->embedded->users;

    TRY(step_run_within(STEP_MS, &desk->embedded->runner, sign_own, desk, err));
    TRY(step_run(&users->gateway, put_in_force, desk, err));
    return step_run(&users->self, enrolment_mark, desk, err);
}

static struct result make_all(struct desk *desk, const struct papers *before, struct error *err)
{
    const struct users *users = &desk->embedded->users;

    TRY(step_run(&users->gateway, identify, desk, err));
    TRY(step_run(&users->self, enrolment_approve, desk, err));
    if (!before->is_enrolled) TRY(enrol(desk, err));
    else if (!before->has_trainer) TRY(step_run(&users->gateway, put_in_force, desk, err));
    if (!before->has_trainer) TRY(step_run(&users->self, enrolment_keep_trainer, desk, err));
    if (!before->has_runner) TRY(step_run_within(STEP_MS, &desk->embedded->runner, keep_runner, desk, err));
    if (!before->is_enrolled)
        log_line(LOG_INFO, "enrolled the runner of this machine", "folder", desk->embedded->paths.runner_state, NULL);
    return SUCCESS;
}

/* A runner from before there were marks. */
static struct result mark_old(struct desk *desk, struct papers *papers, struct error *err)
{
    if (!papers->has_runner || papers->is_enrolled) return SUCCESS;
    papers->is_enrolled = true;
    TRY(papers_write(desk, papers, err));
    return step_run(&desk->embedded->users.self, enrolment_mark, desk, err);
}

struct result runner_enrol(struct embedded *embedded, struct error *err)
{
    OWNED_FD memory = memfd_create("papers", MFD_CLOEXEC);
    struct desk desk = {embedded, memory};
    PAPERS(papers);

    if (memory < 0) return failure(err, ERROR_UNAVAILABLE, "no file in memory: %s", strerror(errno));
    TRY(step_run(&embedded->users.self, gather, &desk, err));
    TRY(step_run_within(LOOK_MS, &embedded->users.self, look, &desk, err));
    TRY(step_run_within(STEP_MS, &embedded->runner, begin, &desk, err));
    TRY(papers_read(&desk, &papers, err));
    TRY(mark_old(&desk, &papers, err));
    return papers.has_runner && papers.has_trainer ? SUCCESS : make_all(&desk, &papers, err);
}
