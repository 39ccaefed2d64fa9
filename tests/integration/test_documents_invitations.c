/* Invitations of runners: bounded, used once, and gone with their organisation. */
#include "tests/integration/documents_fixture.h"

#include "crypto/runner_code.h"
#include "documents/invitation_find.h"

#define PERSON "ext:a"

/* An invitation, its code and the document that follows for a new key. */
struct invited {
    struct buffer envelope, own;
    struct bytes view;
    struct runner_invitation *invitation;
    struct runner_code code;
    struct document *document;
};

static void make_invited(struct store *store, struct invited *made)
{
    struct buffer OWNED_BUFFER payload = BUFFER(RUNNER_INVITATION_MAX);
    OWNED_JSON places = json_pack("[s]", "AE");
    OWNED(ecdsa_key) *key = NULL;
    uint8_t point[ECDSA_PUBLIC_SIZE];
    const int64_t now_ms = clock_wall_ms();
    struct error err = {0};
    const struct runner_invitation_parts parts = {.audience = "a",
                                                  .scope = store->scope,
                                                  .pool = "gpu",
                                                  .region = "dxb",
                                                  .isolation = "rlimits",
                                                  .runner = uuid_random(),
                                                  .jurisdictions = places,
                                                  .assurance = 1,
                                                  .issued_ms = now_ms,
                                                  .expires_ms = now_ms + 3600000,
                                                  .runner_expires_ms = now_ms + DAY_MS};

    *made = (struct invited){.envelope = BUFFER(RUNNER_INVITATION_MAX), .own = BUFFER(RUNNER_INVITATION_MAX)};
    must(runner_invitation_write(&parts, store->root, &made->envelope, &err), &err);
    must(runner_invitation_read(buffer_bytes(&made->envelope), &made->invitation, &err), &err);
    made->code = runner_code_new(&parts.runner);
    must(ecdsa_key_new(&key, &err), &err);
    ecdsa_key_public(key, point);
    must(runner_invitation_document(made->invitation, point, &payload, &err), &err);
    must(document_sign(DOCUMENT_RUNNER, buffer_bytes(&payload), key, &made->own, &err), &err);
    made->view = buffer_bytes(&made->own);
    must(document_read(&made->view, 1, &made->document, &err), &err);
}

static void invited_done(struct invited *made)
{
    buffer_done(&made->envelope);
    buffer_done(&made->own);
    runner_invitation_free(made->invitation);
    document_free(made->document);
}

static enum error_kind invite(struct store *store, const struct invited *made, const char *by)
{
    struct invitation_change change = {.action = ACTION_RUNNER_INVITE,
                                       .invitation = made->invitation,
                                       .envelope = buffer_bytes(&made->envelope),
                                       .invited_by = by};

    runner_code_hash(&made->code, change.code);
    invitation_change_init(&change);
    return submit(store, ACTION_RUNNER_INVITE, &change.change);
}

static enum error_kind use(struct store *store, const struct invited *made, const struct invited *of)
{
    const struct document_draft_row row = {ACTION_RUNNER_ENROLL, of->document, &of->view, 1, "runner:x", NULL};
    struct invitation_use change;

    invitation_use_init(&change, &row, &made->invitation->runner);
    return submit(store, ACTION_RUNNER_ENROLL, &change.change);
}

static enum error_kind end(struct store *store, const struct uuid *runner)
{
    struct invitation_end change;

    invitation_end_init(&change, ACTION_RUNNER_REJECT, store->scope, runner);
    return submit(store, ACTION_RUNNER_REJECT, &change.change);
}

struct listed {
    size_t count, used;
    char name[ECDSA_THUMBPRINT_SIZE];
};

static struct result see_invitation(void *context, const struct invitation_row *row, struct error *err)
{
    struct listed *listed = context;

    (void)err;
    listed->count++;
    if (row->used_ms == 0) return SUCCESS;
    listed->used++;
    (void)snprintf(listed->name, sizeof listed->name, "%s", row->name);
    return SUCCESS;
}

static struct listed list(struct store *store)
{
    const struct action_pair pair = {.action = ACTION_RUNNER_READ, .resource.kind = RESOURCE_SYSTEM};
    const struct invitation_query all = {ACTION_RUNNER_READ, "", NULL};
    OWNED(permit) *permit = NULL;
    struct listed listed = {0};
    struct error err = {0};

    must(permit_for_job(store->log.sequencer, &pair, &permit, &err), &err);
    must(invitation_visit(permit, store->pg, &all, see_invitation, &listed, &err), &err);
    return listed;
}

static void find_one(struct store *store, const struct uuid *runner, struct found_invitation *found)
{
    struct error err = {0};

    must(invitation_find(store->pg, runner, found, &err), &err);
}

static void a_code_is_used_once(void **state)
{
    struct store store;
    struct invited one, other;
    struct found_invitation found;
    uint8_t hash[32];

    (void)state;
    store_open(&store);
    make_invited(&store, &one);
    make_invited(&store, &other);
    assert_int_equal(invite(&store, &one, PERSON), ERROR_NONE);
    assert_int_equal(invite(&store, &one, PERSON), ERROR_CONFLICT); /* the same runner */
    find_one(&store, &one.invitation->runner, &found);
    runner_code_hash(&one.code, hash);
    assert_memory_equal(found.code, hash, sizeof hash);
    assert_true(!found.is_used && uuid_is_nil(&found.organisation) && found.invitation != NULL);
    runner_invitation_free(found.invitation);
    assert_int_equal(use(&store, &other, &other), ERROR_CONFLICT); /* it was not invited */
    assert_int_equal(use(&store, &one, &one), ERROR_NONE);
    assert_int_equal(use(&store, &one, &other), ERROR_CONFLICT);
    find_one(&store, &one.invitation->runner, &found);
    assert_true(found.is_used);
    assert_memory_equal(found.digest, one.document->digest, sizeof found.digest);
    runner_invitation_free(found.invitation);
    const struct listed listed = list(&store);
    assert_true(listed.count == 1 && listed.used == 1);
    assert_string_equal(listed.name, one.document->name);
    assert_string_equal(database_ask(store.log.database, "SELECT count(*)::text FROM document_draft WHERE kind = 3"), "1");
    invited_done(&one);
    invited_done(&other);
    store_close(&store);
}

static void an_expired_code_is_not_used(void **state)
{
    struct store store;
    struct invited one;

    (void)state;
    store_open(&store);
    make_invited(&store, &one);
    assert_int_equal(invite(&store, &one, PERSON), ERROR_NONE);
    database_execute(store.log.database, "UPDATE runner_invitation SET expires_at = now() - interval '1 second'");
    assert_int_equal(use(&store, &one, &one), ERROR_CONFLICT);
    assert_int_equal(list(&store).count, 0);
    assert_string_equal(database_ask(store.log.database, "SELECT count(*)::text FROM document_draft WHERE kind = 3"), "0");
    invited_done(&one);
    store_close(&store);
}

static void their_number_is_bounded(void **state)
{
    struct store store;
    struct invited made;
    char by[16];

    (void)state;
    store_open(&store);
    for (int i = 0; i < INVITATIONS_MAX + 1; i++) {
        (void)snprintf(by, sizeof by, "ext:%d", i / INVITATIONS_EACH);
        make_invited(&store, &made);
        assert_int_equal(invite(&store, &made, by), i < INVITATIONS_MAX ? ERROR_NONE : ERROR_LIMIT);
        if (i == INVITATIONS_EACH - 1) {
            struct invited more;
            make_invited(&store, &more);
            assert_int_equal(invite(&store, &more, by), ERROR_LIMIT);
            invited_done(&more);
        }
        invited_done(&made);
    }
    assert_int_equal(list(&store).count, INVITATIONS_MAX);
    database_execute(store.log.database, "UPDATE runner_invitation SET expires_at = now() - interval '1 second'");
    make_invited(&store, &made);
    assert_int_equal(invite(&store, &made, PERSON), ERROR_NONE); /* old ones make room */
    assert_string_equal(database_ask(store.log.database, "SELECT count(*)::text FROM runner_invitation"), "1");
    invited_done(&made);
    store_close(&store);
}

static void an_invitation_can_be_taken_back(void **state)
{
    struct store store;
    struct found_invitation found;
    struct invited one;

    (void)state;
    store_open(&store);
    make_invited(&store, &one);
    assert_int_equal(invite(&store, &one, PERSON), ERROR_NONE);
    assert_int_equal(end(&store, &one.invitation->runner), ERROR_NONE);
    assert_int_equal(end(&store, &one.invitation->runner), ERROR_NOT_FOUND);
    find_one(&store, &one.invitation->runner, &found);
    assert_null(found.invitation);
    invited_done(&one);
    store_close(&store);
}

/* The application's role can't open a used code again. */
static void a_used_code_stays_used(void **state)
{
    struct store store;
    struct invited one;

    (void)state;
    store_open(&store);
    make_invited(&store, &one);
    assert_int_equal(invite(&store, &one, PERSON), ERROR_NONE);
    assert_int_equal(use(&store, &one, &one), ERROR_NONE);
    database_execute(store.log.database,
                     "CREATE FUNCTION tried() RETURNS text LANGUAGE plpgsql AS $$ BEGIN EXECUTE"
                     " 'UPDATE runner_invitation SET used_at = NULL, name = NULL, digest = NULL'; RETURN 'opened';"
                     " EXCEPTION WHEN raise_exception THEN RETURN 'refused'; END $$");
    assert_string_equal(database_ask(store.log.database, "SELECT tried()"), "refused");
    invited_done(&one);
    store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_code_is_used_once),     cmocka_unit_test(an_expired_code_is_not_used),
        cmocka_unit_test(their_number_is_bounded), cmocka_unit_test(an_invitation_can_be_taken_back),
        cmocka_unit_test(a_used_code_stays_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
