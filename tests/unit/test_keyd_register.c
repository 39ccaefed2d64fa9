/* The register of keys of sijil-keyd: one owner and one withdrawal for each key, in all scopes, whatever the disk does. */
#include "tests/unit/keyd_folder_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "documents/format/runner_key.h"
#include "documents/format/signing_key.h"
#include "keyd/key_register.h"
#include "tests/support/signal_process.h"

#define ALICE  "robot:7b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22"
#define BOB    "robot:8b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22"
#define RUNNER "7b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22"
#define OTHER  "8b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22"

#define NOW_MS INT64_C(1795000000000)
#define DAY_MS INT64_C(86400000)

static const uint8_t ledger_key[LEDGER_KEY_SIZE] = {7};
static struct ecdsa_key *key; /* that all documents name */

struct world {
    struct folder folder;
    struct ledger *ledger;
    struct key_register *keys;
};

static enum error_kind open_register(struct world *world)
{
    struct error err = {0};

    key_register_free(world->keys);
    world->keys = NULL;
    return key_register_open(world->folder.fd, ledger_key, world->ledger, &world->keys, &err).ok ? ERROR_NONE : err.kind;
}

static void begin(struct world *world)
{
    struct error err = {0};

    *world = (struct world){.keys = NULL};
    folder_make(&world->folder);
    assert_true(ledger_create(world->folder.fd, ledger_key, &err).ok);
    assert_true(key_register_create(world->folder.fd, ledger_key, &err).ok);
    assert_true(ledger_open(world->folder.fd, ledger_key, &world->ledger, &err).ok);
    assert_int_equal(open_register(world), ERROR_NONE);
}

static void release(struct world *world)
{
    key_register_free(world->keys);
    ledger_free(world->ledger);
    folder_remove(&world->folder);
}
#define OWNED_WORLD __attribute__((cleanup(release))) struct world

static json_t *runner_body(const struct signing_key *named, const char *runner, bool is_withdrawn)
{
    struct buffer OWNED_BUFFER text = BUFFER(128);
    struct error err = {0};

    assert_true(text_base64(&text, BASE64_URL, (struct bytes){named->point, sizeof named->point}, &err).ok);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:[s], s:s*}", "runner", runner, "public_key", buffer_text(&text),
                     "pool", "uae-gpu", "region", "local/dxb", "isolation", "cgroup-v2", "assurance", 3, "devices", 1,
                     "jurisdictions", "AE", "since", is_withdrawn ? "2026-11-18T00:00:00Z" : NULL);
}

static struct document *document_of(const struct ecdsa_key *named, const char *owner, const char *scope, bool is_withdrawn)
{
    const enum document_kind kind = strchr(owner, ':') != NULL ? DOCUMENT_SIGNING_KEY : DOCUMENT_RUNNER;
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    struct signing_key person = {.purpose = SIGNING_SIGN};
    char name[ECDSA_THUMBPRINT_SIZE];
    struct document *document = NULL;
    struct error err = {0};

    (void)snprintf(person.principal, sizeof person.principal, "%s", owner);
    ecdsa_key_public(named, person.point);
    ecdsa_thumbprint(person.point, name);
    OWNED_JSON body = kind == DOCUMENT_SIGNING_KEY ? signing_key_body(&person) : runner_body(&person, owner, is_withdrawn);
    const struct document_parts parts = {.kind = kind,
                                         .scope = scope,
                                         .name = name,
                                         .version = is_withdrawn ? 2 : 1,
                                         .effective_ms = NOW_MS,
                                         .expires_ms = NOW_MS + 100 * DAY_MS,
                                         .withdrawn = is_withdrawn ? "stolen" : NULL,
                                         .body = body};
    if (!document_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    if (!document_read_payload(kind, buffer_bytes(&payload), &document, &err).ok) fail_msg("%s", err.message);
    return document;
}

static struct document_pin pin_number(uint64_t sequence)
{
    return (struct document_pin){.epoch = sequence, .digest = {(uint8_t)sequence}};
}

static struct result note_by(struct world *world, const struct document *document, uint64_t sequence, bool is_approved,
                             struct error *err)
{
    const struct key_register_note noted = {.document = document,
                                            .sequence = sequence,
                                            .is_approved = is_approved,
                                            .before = pin_number(sequence - 1),
                                            .pin = pin_number(sequence)};

    return key_register_note(world->keys, &noted, err);
}

static struct result note(struct world *world, const struct document *document, uint64_t sequence, struct error *err)
{
    return note_by(world, document, sequence, !document->is_withdrawn, err);
}

static struct result check(struct world *world, const struct ecdsa_key *named, struct error *err)
{
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char name[ECDSA_THUMBPRINT_SIZE];

    ecdsa_key_public(named, point);
    ecdsa_thumbprint(point, name);
    return key_register_check(world->keys, name, err);
}

/* ---- the rules ---- */

struct step {
    const char *owner, *scope;
    enum { ENROLS, WITHDRAWS, APPROVER_WITHDRAWS } act; /* WITHDRAWS: the key alone has signed it */
    const char *refusal;                                /* NULL: it is noted */
};
static const struct rule {
    const char *name;
    struct step steps[3];
    const char *use; /* why the key can't be used afterwards; NULL: it can */
} rules[] = {
    {"a key that nobody has enrolled", {{0}}, "has pinned no document"},
    {"a key of one person", {{ALICE, "acme", ENROLS, NULL}}, NULL},
    {"one person in two scopes", {{ALICE, "acme", ENROLS, NULL}, {ALICE, "globex", ENROLS, NULL}}, NULL},
    {"two persons in one scope", {{ALICE, "acme", ENROLS, NULL}, {BOB, "acme", ENROLS, "another owner"}}, NULL},
    {"two persons in two scopes", {{ALICE, "acme", ENROLS, NULL}, {BOB, "globex", ENROLS, "another owner"}}, NULL},
    {"a person and a runner", {{ALICE, "acme", ENROLS, NULL}, {RUNNER, "acme", ENROLS, "another owner"}}, NULL},
    {"a runner and a person", {{RUNNER, "acme", ENROLS, NULL}, {ALICE, "acme", ENROLS, "another owner"}}, NULL},
    {"two runners", {{RUNNER, "acme", ENROLS, NULL}, {OTHER, "globex", ENROLS, "another owner"}}, NULL},
    {"a withdrawal", {{ALICE, "acme", ENROLS, NULL}, {ALICE, "acme", WITHDRAWS, NULL}}, "was withdrawn"},
    {"a withdrawal of a runner", {{RUNNER, "acme", ENROLS, NULL}, {RUNNER, "acme", WITHDRAWS, NULL}}, "was withdrawn"},
    {"a withdrawal in another scope", {{ALICE, "acme", ENROLS, NULL}, {ALICE, "globex", WITHDRAWS, NULL}}, "was withdrawn"},
    {"a withdrawal by another owner", {{ALICE, "acme", ENROLS, NULL}, {BOB, "acme", WITHDRAWS, "another owner"}}, NULL},
    {"a withdrawn key in its scope",
     {{ALICE, "acme", ENROLS, NULL}, {ALICE, "acme", WITHDRAWS, NULL}, {ALICE, "acme", ENROLS, "was withdrawn"}},
     "was withdrawn"},
    {"a withdrawn key in another scope",
     {{ALICE, "acme", ENROLS, NULL}, {ALICE, "acme", WITHDRAWS, NULL}, {ALICE, "globex", ENROLS, "was withdrawn"}},
     "was withdrawn"},
    {"a second withdrawal",
     {{ALICE, "acme", ENROLS, NULL}, {ALICE, "acme", WITHDRAWS, NULL}, {ALICE, "globex", WITHDRAWS, NULL}},
     "was withdrawn"},
    {"a withdrawal by an approver before the enrolment",
     {{ALICE, "acme", APPROVER_WITHDRAWS, NULL}, {ALICE, "globex", ENROLS, "was withdrawn"}},
     "was withdrawn"},
    {"a withdrawal by the key alone before the enrolment",
     {{ALICE, "acme", WITHDRAWS, "nobody has enrolled the key"}, {ALICE, "globex", ENROLS, NULL}},
     NULL},
    {"a withdrawal by the key alone, and no enrolment",
     {{ALICE, "acme", WITHDRAWS, "nobody has enrolled the key"}},
     "has pinned no document"},
};

static void take(struct world *world, const struct step *step, uint64_t sequence)
{
    OWNED(document) *document = document_of(key, step->owner, step->scope, step->act != ENROLS);
    struct error err = {0};

    const bool ok = note_by(world, document, sequence, step->act != WITHDRAWS, &err).ok;
    if (ok != (step->refusal == NULL)) fail_msg("%s: %s", step->owner, ok ? "it was noted" : err.message);
    if (ok) return;
    assert_int_equal(err.kind, ERROR_DENIED);
    if (strstr(err.message, step->refusal) == NULL) fail_msg("%s", err.message);
}

static void check_use(struct world *world, const struct rule *rule)
{
    struct error err = {0};

    const bool ok = check(world, key, &err).ok;
    if (ok != (rule->use == NULL)) fail_msg("%s", ok ? "it may be used" : err.message);
    if (!ok && strstr(err.message, rule->use) == NULL) fail_msg("%s", err.message);
}

static struct result set_pins(const void *context, struct ledger_state *state, struct error *err)
{
    (void)err;
    state->pins[document_kind(DOCUMENT_SIGNING_KEY)->number - 1] = *(const struct document_pin *)context;
    return SUCCESS;
}

static void pin(struct world *world, uint64_t sequence)
{
    const struct document_pin set = sequence == 0 ? (struct document_pin){0} : pin_number(sequence);
    struct error err = {0};

    assert_true(ledger_change(world->ledger, set_pins, &set, &err).ok);
}

static void keys_have_one_owner_and_one_withdrawal(void **state)
{
    const struct rule *rule = *state;
    OWNED_WORLD world;

    begin(&world);
    for (size_t i = 0; i < COUNT(rule->steps) && rule->steps[i].owner != NULL; i++) take(&world, &rule->steps[i], 10 + i);
    check_use(&world, rule);
}

static bool is_enrolment(struct world *world, const struct document *document, uint64_t sequence)
{
    struct error err = {0};

    const bool is_pinned = key_register_check_enrolment(world->keys, document, sequence, &err).ok;
    if (!is_pinned) assert_int_equal(err.kind, ERROR_DENIED);
    return is_pinned;
}

/* A bundle of a run proves keys with documents that were pinned long ago, also those of approvers that were withdrawn since. */
static void each_enrolment_keeps_its_event(void **state)
{
    OWNED(document) *document = document_of(key, ALICE, "acme", false);
    OWNED_WORLD world;

    (void)state;
    begin(&world);
    take(&world, &(const struct step){ALICE, "acme", ENROLS, NULL}, 10);
    take(&world, &(const struct step){ALICE, "globex", ENROLS, NULL}, 11);
    take(&world, &(const struct step){ALICE, "globex", WITHDRAWS, NULL}, 12);
    pin(&world, 12);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(is_enrolment(&world, document, 10));
        assert_true(is_enrolment(&world, document, 11));
        assert_false(is_enrolment(&world, document, 12));
        assert_false(is_enrolment(&world, document, 9));
        check_use(&world, &(const struct rule){.use = "was withdrawn"});
        assert_int_equal(open_register(&world), ERROR_NONE); /* and after a restart */
    }
}

/* ---- the file ---- */

static const struct file_row {
    const char *name;
    uint64_t noted, pinned; /* events: in the register, and in the ledger; 0: none */
    bool is_removed;
    enum error_kind kind;
} file_rows[] = {
    {"nothing was pinned", 0, 0, false, ERROR_NONE},
    {"nothing was pinned, and no file: an older keyd", 0, 0, true, ERROR_NONE},
    {"both have the document", 10, 10, false, ERROR_NONE},
    {"a crash between register and ledger", 10, 9, false, ERROR_NONE},
    {"an older register", 10, 11, false, ERROR_CORRUPT},
    {"an older ledger", 10, 8, false, ERROR_CORRUPT},
    {"no register, though keys were pinned", 10, 10, true, ERROR_CORRUPT},
};

static void the_register_belongs_to_its_ledger(void **state)
{
    const struct file_row *row = *state;
    OWNED_WORLD world;

    begin(&world);
    if (row->noted != 0) take(&world, &(const struct step){ALICE, "acme", ENROLS, NULL}, row->noted);
    pin(&world, row->pinned);
    if (row->is_removed) assert_int_equal(unlinkat(world.folder.fd, KEY_REGISTER_FILE, 0), 0);
    assert_int_equal(open_register(&world), row->kind);
    if (row->kind != ERROR_NONE || row->noted == 0) return;
    check_use(&world, &(const struct rule){.name = row->name});
}

static void damage(const struct world *world, off_t at, off_t from_end)
{
    OWNED_FD fd = openat(world->folder.fd, KEY_REGISTER_FILE, O_RDWR | O_CLOEXEC);
    const off_t size = lseek(fd, 0, SEEK_END);

    assert_int_equal(pwrite(fd, "\xa5\xa5\xa5", 3, from_end ? size / 2 + at : at), 3);
}

static void one_damaged_copy_is_mended_and_two_refuse(void **state)
{
    OWNED_WORLD world;

    (void)state;
    begin(&world);
    take(&world, &(const struct step){ALICE, "acme", APPROVER_WITHDRAWS, NULL}, 10);
    pin(&world, 10);
    for (int copy = 0; copy < 2; copy++) {
        damage(&world, 500, copy);
        assert_int_equal(open_register(&world), ERROR_NONE);
        check_use(&world, &(const struct rule){.use = "was withdrawn"});
    }
    damage(&world, 500, 0);
    damage(&world, 500, 1);
    assert_int_equal(open_register(&world), ERROR_CORRUPT);
}

/* Each write and each fsync fails once. What was reported stays; nothing is noted after the failure. */
static void failing_disks_forget_no_withdrawal(void **state)
{
    unsigned long nth = 1;

    (void)state;
    for (bool has_fired = true; has_fired; nth++) {
        OWNED(document) *withdrawal = document_of(key, ALICE, "acme", true);
        OWNED_WORLD world;
        struct error err = {0};

        begin(&world);
        take(&world, &(const struct step){ALICE, "acme", ENROLS, NULL}, 10);
        pin(&world, 10);
        fault_arm(nth);
        const bool ok = note(&world, withdrawal, 11, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_int_equal(ok, !has_fired);
        const bool is_broken = key_register_is_broken(world.keys);
        if (is_broken) assert_false(note(&world, withdrawal, 11, &err).ok);
        assert_int_equal(open_register(&world), ERROR_NONE);
        if (ok) check_use(&world, &(const struct rule){.use = "was withdrawn"});
        take(&world, &(const struct step){ALICE, "acme", WITHDRAWS, NULL}, 11); /* again, after the next start */
        check_use(&world, &(const struct rule){.use = "was withdrawn"});
    }
    assert_failures(nth - 2, 4);
}

/* ---- kill -9 ---- */

enum { KILLED_KEYS = 12, KILLS = 12 };

static void note_until_killed(struct world *world, struct document **documents, int told)
{
    struct error err;

    if (open_register(world) != ERROR_NONE) _exit(1);
    for (uint8_t i = 0; i < KILLED_KEYS; i++)
        if (!note(world, documents[i], 10 + i, &err).ok || write(told, &i, 1) != 1) _exit(1);
    for (;;) (void)pause();
}

/* The number of documents that were reported. */
static size_t kill_a_writer(struct world *world, struct document **documents, unsigned after_us)
{
    size_t reported = 0;
    uint8_t number = 0;
    int ends[2], status = 0;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) note_until_killed(world, documents, ends[1]);
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &number, 1), 1);
    (void)usleep(after_us);
    (void)signal_process(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    for (reported = 1; read(ends[0], &number, 1) == 1;) reported++;
    (void)close(ends[0]);
    return reported;
}

static void one_kill(struct ecdsa_key **named, struct document **documents, unsigned after_us)
{
    OWNED_WORLD world;
    struct error err;
    size_t known = 0;

    begin(&world);
    key_register_free(world.keys);
    world.keys = NULL;
    const size_t reported = kill_a_writer(&world, documents, after_us);
    /* The ledger has the last reported document, as keyd would have pinned it. The next one may be in the register. */
    pin(&world, 9 + reported);
    if (open_register(&world) != ERROR_NONE) {
        fail_msg("after %zu reported documents the register does not open", reported);
    }
    while (known < KILLED_KEYS && check(&world, named[known], &err).ok) known++;
    assert_in_range(known, reported, reported + 1);
}

static void kills_lose_no_reported_key(void **state)
{
    struct ecdsa_key *named[KILLED_KEYS] = {NULL};
    struct document *documents[KILLED_KEYS] = {NULL};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < KILLED_KEYS; i++) {
        assert_true(ecdsa_key_new(&named[i], &err).ok);
        documents[i] = document_of(named[i], ALICE, "acme", false);
    }
    for (unsigned i = 0; i < KILLS; i++) one_kill(named, documents, i * 1500);
    for (size_t i = 0; i < KILLED_KEYS; i++) {
        document_free(documents[i]);
        ecdsa_key_free(named[i]);
    }
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(each_enrolment_keeps_its_event),
        cmocka_unit_test(one_damaged_copy_is_mended_and_two_refuse),
        cmocka_unit_test(failing_disks_forget_no_withdrawal),
        cmocka_unit_test(kills_lose_no_reported_key),
    };
    struct error err = {0};

    if (!ecdsa_key_new(&key, &err).ok) return 1;
    int failed = RUN_TABLE(rules, keys_have_one_owner_and_one_withdrawal);
    failed += RUN_TABLE(file_rows, the_register_belongs_to_its_ledger);
    failed += cmocka_run_group_tests_name("others", others, NULL, NULL);
    ecdsa_key_free(key);
    return failed;
}
