/* Drafts collect signatures one at a time, each after the stored ones (docs/documents.md). */
#include "audit/job_permit.h"
#include "tests/integration/documents_fixture.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "documents/draft.h"

/* A document with the signatures of its holder, of the root and of two others. */
struct collected {
    struct buffer envelopes[DOCUMENT_SIGNATURES_MAX];
    struct bytes views[DOCUMENT_SIGNATURES_MAX];
    struct document *documents[DOCUMENT_SIGNATURES_MAX]; /* read from the first i + 1 */
};

static void collect(struct store *store, struct collected *collected)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8 * 1024);
    char name[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    compose_key(store, 0, 1, &payload);
    for (unsigned i = 0; i < DOCUMENT_SIGNATURES_MAX; i++) {
        holder_name(store, i, name);
        collected->envelopes[i] = BUFFER(16 * 1024);
        const struct ecdsa_key *signer = i == 1 ? store->root : store->holders[i];
        assert_true(document_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), signer, &collected->envelopes[i], &err).ok);
        collected->views[i] = buffer_bytes(&collected->envelopes[i]);
        if (!document_read(collected->views, i + 1, &collected->documents[i], &err).ok) fail_msg("%s", err.message);
    }
}

static void collected_done(struct collected *collected)
{
    for (size_t i = 0; i < DOCUMENT_SIGNATURES_MAX; i++) buffer_done(&collected->envelopes[i]);
    for (size_t i = 0; i < DOCUMENT_SIGNATURES_MAX; i++) document_free(collected->documents[i]);
}

/* Brings the first `count` of these envelopes, the last of which is new. */
static enum error_kind bring(struct store *store, const struct document *document, const struct bytes *envelopes, size_t count,
                             const char *by)
{
    const struct document_draft_row row = {ACTION_KEY_ENROLL, document, envelopes, count, by, NULL};
    struct document_draft_change change;

    document_draft_change_init(&change, &row);
    return submit(store, ACTION_KEY_ENROLL, &change.change);
}

struct waiting {
    size_t drafts, signatures;
    char signed_by[512];
};

static struct result see_draft(void *context, const struct drafted_document *drafted, struct error *err)
{
    struct waiting *waiting = context;

    (void)err;
    waiting->drafts++;
    waiting->signatures = drafted->document->signature_count;
    (void)snprintf(waiting->signed_by, sizeof waiting->signed_by, "%s", drafted->signed_by);
    return SUCCESS;
}

static struct waiting look_at_drafts(struct store *store)
{
    const struct action_pair pair = {.action = ACTION_KEY_READ, .resource.kind = RESOURCE_SYSTEM};
    const struct document_draft_query all = {ACTION_KEY_READ, DOCUMENT_SIGNING_KEY, "", NULL};
    struct waiting waiting = {0};
    OWNED(permit) *permit = NULL;
    struct error err = {0};

    if (!permit_for_job(store->log.sequencer, &pair, &permit, &err).ok) fail_msg("%s", err.message);
    if (!document_draft_visit(permit, store->pg, &all, see_draft, &waiting, &err).ok) fail_msg("%s", err.message);
    return waiting;
}

/* Records the document with its first `count` envelopes. */
static enum error_kind approve(struct store *store, const struct collected *collected, size_t count)
{
    const struct document_row row = {ACTION_KEY_APPROVE, collected->documents[count - 1], collected->views, count, "ext:c"};
    struct document_change change;

    document_change_init(&change, &row, true);
    return submit(store, ACTION_KEY_APPROVE, &change.change);
}

static void a_draft_collects_four_signatures(void **state)
{
    struct store store;
    struct collected collected;
    struct waiting waiting;

    (void)state;
    store_open(&store);
    collect(&store, &collected);
    assert_int_equal(bring(&store, collected.documents[1], collected.views, 2, "ext:a"), ERROR_CONFLICT); /* of no draft */
    assert_int_equal(bring(&store, collected.documents[0], collected.views, 1, HOLDER), ERROR_NONE);
    waiting = look_at_drafts(&store);
    assert_int_equal(waiting.signatures, 1);
    assert_string_equal(waiting.signed_by, HOLDER);
    assert_int_equal(bring(&store, collected.documents[1], collected.views, 2, "ext:a"), ERROR_NONE);
    assert_int_equal(bring(&store, collected.documents[2], collected.views, 3, "ext:b"), ERROR_NONE);
    waiting = look_at_drafts(&store);
    assert_true(waiting.drafts == 1 && waiting.signatures == 3);
    assert_string_equal(waiting.signed_by, HOLDER " ext:a ext:b");
    assert_int_equal(approve(&store, &collected, 4), ERROR_NONE);
    assert_int_equal(look_at_drafts(&store).drafts, 0);
    look_well(&store);
    assert_true(is_in_force(&store, 0));
    collected_done(&collected);
    store_close(&store);
}

/* If two persons sign at the same time, the second one reads the draft again. */
static void no_signature_is_lost(void **state)
{
    struct store store;
    struct collected collected;

    (void)state;
    store_open(&store);
    collect(&store, &collected);
    assert_int_equal(bring(&store, collected.documents[0], collected.views, 1, HOLDER), ERROR_NONE);
    assert_int_equal(bring(&store, collected.documents[1], collected.views, 2, "ext:a"), ERROR_NONE);
    const struct bytes other[] = {collected.views[0], collected.views[2]};
    const struct bytes swapped[] = {collected.views[1], collected.views[0], collected.views[2]};
    assert_int_equal(bring(&store, collected.documents[1], other, 2, "ext:b"), ERROR_CONFLICT);
    assert_int_equal(bring(&store, collected.documents[1], collected.views, 2, "ext:a"), ERROR_CONFLICT);
    assert_int_equal(bring(&store, collected.documents[2], swapped, 3, "ext:b"), ERROR_CONFLICT);
    assert_int_equal(bring(&store, collected.documents[3], collected.views, 4, "ext:b"), ERROR_CONFLICT);
    assert_string_equal(look_at_drafts(&store).signed_by, HOLDER " ext:a");
    collected_done(&collected);
    store_close(&store);
}

/* One person with two key files can't bring the last two signatures at once. */
static void each_signature_has_its_own_request(void **state)
{
    struct store store;
    struct collected collected;

    (void)state;
    store_open(&store);
    collect(&store, &collected);
    assert_int_equal(approve(&store, &collected, 2), ERROR_NOT_FOUND); /* there is no draft */
    assert_int_equal(bring(&store, collected.documents[0], collected.views, 1, HOLDER), ERROR_NONE);
    assert_int_equal(approve(&store, &collected, 1), ERROR_NOT_FOUND);
    assert_int_equal(approve(&store, &collected, 3), ERROR_NOT_FOUND);
    assert_int_equal(look_at_drafts(&store).drafts, 1);
    assert_int_equal(approve(&store, &collected, 2), ERROR_NONE);
    assert_int_equal(look_at_drafts(&store).drafts, 0);
    collected_done(&collected);
    store_close(&store);
}

static enum error_kind end(struct store *store, enum action action, const char *name, const char *by)
{
    const struct document_draft_removal removal = {action, DOCUMENT_SIGNING_KEY, "", name, by};
    struct document_draft_end change;

    document_draft_end_init(&change, &removal);
    return submit(store, action, &change.change);
}

static void drafts_are_replaced_discarded_and_rejected(void **state)
{
    struct store store;
    struct collected first, second, third;

    (void)state;
    store_open(&store);
    collect(&store, &first);
    (void)usleep(2000);
    collect(&store, &second); /* the same key at another time */
    (void)usleep(2000);
    collect(&store, &third);
    const char *name = first.documents[0]->name;
    assert_int_equal(bring(&store, first.documents[0], first.views, 1, HOLDER), ERROR_NONE);
    assert_int_equal(bring(&store, first.documents[0], first.views, 1, HOLDER), ERROR_CONFLICT);
    assert_int_equal(bring(&store, second.documents[0], second.views, 1, HOLDER), ERROR_NONE);
    assert_int_equal(look_at_drafts(&store).drafts, 1);
    assert_int_equal(bring(&store, third.documents[0], third.views, 1, "ext:a"), ERROR_NONE);
    assert_int_equal(look_at_drafts(&store).drafts, 2);
    assert_int_equal(end(&store, ACTION_KEY_DISCARD, "another", HOLDER), ERROR_NOT_FOUND);
    assert_int_equal(end(&store, ACTION_KEY_DISCARD, name, HOLDER), ERROR_NONE);
    assert_string_equal(look_at_drafts(&store).signed_by, "ext:a");
    assert_int_equal(end(&store, ACTION_KEY_DISCARD, name, HOLDER), ERROR_NOT_FOUND);
    assert_int_equal(end(&store, ACTION_KEY_REJECT, name, NULL), ERROR_NONE);
    assert_int_equal(look_at_drafts(&store).drafts, 0);
    assert_int_equal(bring(&store, first.documents[0], first.views, 1, HOLDER), ERROR_NONE);
    assert_int_equal(bring(&store, second.documents[0], second.views, 1, "ext:a"), ERROR_NONE);
    assert_int_equal(approve(&store, &first, 2), ERROR_NONE); /* ends the other one, too */
    assert_int_equal(look_at_drafts(&store).drafts, 0);
    collected_done(&first);
    collected_done(&second);
    collected_done(&third);
    store_close(&store);
}

/* The permit of an action on runners is none for keys, even if it has their scope. It is a bug of the caller, so it aborts. */
static void drafts_need_an_action_of_their_kind(void **state)
{
    const struct action_pair pair = {.action = ACTION_RUNNER_READ, .resource.kind = RESOURCE_SYSTEM};
    const struct document_draft_query keys = {ACTION_RUNNER_READ, DOCUMENT_SIGNING_KEY, "", NULL},
                                      runners = {ACTION_RUNNER_READ, DOCUMENT_RUNNER, "", NULL};
    OWNED(permit) *permit = NULL;
    struct waiting waiting = {0};
    struct error err = {0};
    struct store store;
    int status = -1;

    (void)state;
    store_open(&store);
    assert_true(permit_for_job(store.log.sequencer, &pair, &permit, &err).ok);
    assert_true(document_draft_visit(permit, store.pg, &runners, see_draft, &waiting, &err).ok);
    const pid_t child = fork();
    if (child == 0) {
        (void)fclose(stderr);
        (void)document_draft_visit(permit, store.pg, &keys, see_draft, &waiting, &err).ok;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_draft_collects_four_signatures),    cmocka_unit_test(no_signature_is_lost),
        cmocka_unit_test(each_signature_has_its_own_request),  cmocka_unit_test(drafts_are_replaced_discarded_and_rejected),
        cmocka_unit_test(drafts_need_an_action_of_their_kind),
    };

    return cmocka_run_group_tests_name("drafts of documents", tests, NULL, NULL);
}
