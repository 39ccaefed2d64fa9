/* Whole bundles of runs: their proof, and that no byte of one can be changed. */
#include "tests/support/made_run.h"

#include "base/memory.h"
#include "training/format/bundle.h"

struct world {
    json_t *vectors;
    struct ecdsa_key *keyd;
    struct run_trust trust;
};

static void world_begin(struct world *world)
{
    *world = (struct world){.vectors = made_vectors()};
    world->keyd = made_key(world->vectors, "keyd");
    world->trust.keyd = world->keyd;
    world->trust.log_key = bytes_of_text(json_text_of(world->vectors, "vkey"));
    assert_true(text_from_hex(bytes_of_text(json_text_of(json_object_get(world->vectors, "points"), "root")), world->trust.root,
                              sizeof world->trust.root));
}

static void world_release(struct world *world)
{
    ecdsa_key_free(world->keyd);
    json_decref(world->vectors);
}
#define OWNED_WORLD __attribute__((cleanup(world_release))) struct world

static struct result check(const struct world *world, const json_t *bundle, struct buffer *report, struct error *err)
{
    OWNED_STRING text = json_dumps(bundle, JSON_COMPACT);
    OWNED(run_bundle) *read = NULL;
    const struct run_repeated none = {.decisions = 0};

    assert_non_null(text);
    TRY(run_bundle_check(bytes_of_text(text), &world->trust, &read, err));
    TRY(run_bundle_text(read, &none, report, err));
    return run_bundle_json(read, &none, report, err);
}

static const struct whole_row {
    const char *name;
    size_t number;
    const char *says[7], *silent; /* `silent`: a text that it must not have */
} whole_rows[] = {
    {"a whole run",
     0,
     {"asked for it, with a key", "approved it, with a key", "sijil-keyd admitted", "the bundle has no decisions",
      "for no more approvals: the bundle has no policy sets", "root of the machine of the runner",
      "the approvers vouch that these can't use its key"},
     "that the outputs were admitted"},
    {"a run that goes on",
     1,
     {"leased it to the runner", "the bundle ends with the lease", "\"result\":null", "", ""},
     "the runner did what"},
    {"an order for a token's claims",
     2,
     {"by a token of the registry that sijil-keyd verified", "ends with the order", "\"approvals\":0",
      "who asked for it: no key of the requester has signed", "\"claims\":{\"issuer\":\"https://id.example\""},
     "approved it"},
    {"a run of two nodes",
     MADE_NODES,
     {"all 2 nodes of the attempt have their own lease",
      "node 1: the runner 5e8c2d40-11f7-4c7b-8f0e-6b8a90d1c333 signed that it succeeded",
      "for node 1 likewise: root of the machine of the runner 5e8c2d40-11f7-4c7b-8f0e-6b8a90d1c333", "\"nodes\":2",
      "sijil-keyd admitted"},
     "the bundle has node 0 alone"},
    {"a run with manifests",
     MADE_MANIFESTS,
     {"leased it to the runner", "the bundle ends with the lease", "\"manifests\":0", "", ""},
     "that the outputs were admitted by"},
    {"a run by a trust rule",
     MADE_RULE,
     {"by a token of the registry that sijil-keyd verified",
      "this is the trust rule acme:gh-train: approvers, or the root, signed",
      "who asked for it: no key of the requester has signed", "\"approvals\":2", "sijil-keyd admitted"},
     "with a key that was in force;\n  - this is"},
    {"a run that its runner refused",
     3,
     {"refused it at 2026-11-23T10:02:00.000Z: the order asks for 1 gpu, and this machine has none (devices)", "leased it to",
      "\"refusal\":\"sha256:", "", ""},
     "that the outputs were admitted"},
};

static void says_what_is_proven(void **state)
{
    const struct whole_row *row = *state;
    struct buffer OWNED_BUFFER report = BUFFER(65536);
    OWNED_WORLD world;
    struct error err = {0};

    world_begin(&world);
    world.trust.log_key = bytes_of_text(made_vkey(world.vectors, row->number));
    if (!check(&world, made_bundle(world.vectors, row->number), &report, &err).ok) fail_msg("%s", err.message);
    for (size_t i = 0; i < COUNT(row->says) && row->says[i] != NULL; i++)
        if (strstr(buffer_text(&report), row->says[i]) == NULL) fail_msg("%s is not in %s", row->says[i], buffer_text(&report));
    assert_null(strstr(buffer_text(&report), row->silent));
}

/* The shapes keep such a reason out; the report does not count on that. */
static void no_text_makes_a_line(void **state)
{
    struct buffer OWNED_BUFFER report = BUFFER(65536);
    const struct run_repeated none = {.decisions = 0};
    OWNED(run_bundle) *read = NULL;
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    world_begin(&world);
    OWNED_STRING text = json_dumps(made_bundle(world.vectors, 3), JSON_COMPACT);
    assert_true(run_bundle_check(bytes_of_text(text), &world.trust, &read, &err).ok);
    json_t *refusal = read->chain.refusal->json;
    assert_int_equal(
        json_object_set_new(refusal, "reason", json_string("no\n  - sijil-keyd admitted\x1b[2J\xe2\x80\xaegnp\xc2\x9bm")), 0);
    assert_true(run_bundle_text(read, &none, &report, &err).ok);
    assert_non_null(strstr(buffer_text(&report), ": no?  - sijil-keyd admitted?[2J???gnp??m (devices).\n"));
}

/* ---- bundles that do not hold ---- */

/* Changes of a whole bundle. */
static void drop_approver(json_t *bundle)
{
    assert_int_equal(json_array_remove(json_object_get(bundle, "documents"), 3), 0);
}

static void drop_officer(json_t *bundle)
{
    assert_int_equal(json_array_remove(json_object_get(bundle, "documents"), 0), 0);
}

static void drop_runner(json_t *bundle)
{
    assert_int_equal(json_array_remove(json_object_get(bundle, "documents"), 4), 0);
}

static void swap_documents(json_t *bundle)
{
    json_t *documents = json_object_get(bundle, "documents");

    assert_int_equal(json_array_append(documents, json_array_get(documents, 1)), 0);
}

static void sign_alone(json_t *bundle)
{
    json_t *runner = json_array_get(json_object_get(bundle, "documents"), 4);

    assert_int_equal(json_array_remove(json_object_get(runner, "envelopes"), 2), 0);
}

static void drop_approvals(json_t *bundle)
{
    assert_int_equal(json_array_clear(json_object_get(bundle, "approvals")), 0);
}

static void drop_lease(json_t *bundle)
{
    assert_int_equal(json_object_del(bundle, "lease"), 0);
}

static void add_member(json_t *bundle)
{
    assert_int_equal(json_object_set_new(bundle, "more", json_true()), 0);
}

static void take_event(json_t *bundle)
{
    OWNED_JSON vectors = made_vectors();

    assert_int_equal(json_object_set(bundle, "event", json_object_get(made_bundle(vectors, 1), "event")), 0);
}

static void take_document_event(json_t *bundle)
{
    json_t *documents = json_object_get(bundle, "documents"), *event = json_object_get(bundle, "event");
    const json_t *other = json_array_get(documents, 2);

    assert_int_equal(json_object_set(event, "entry", json_object_get(other, "entry")), 0);
    assert_int_equal(json_object_set(event, "proof", json_object_get(other, "proof")), 0);
}

static void take_order(json_t *bundle)
{
    OWNED_JSON vectors = made_vectors();
    const json_t *other = made_bundle(vectors, 1);

    assert_int_equal(json_object_set(bundle, "order", json_object_get(other, "order")), 0);
    assert_int_equal(json_object_set(bundle, "event", json_object_get(other, "event")), 0);
}

static void take_request(json_t *bundle)
{
    OWNED_JSON vectors = made_vectors();

    assert_int_equal(json_object_set(bundle, "request", json_object_get(made_bundle(vectors, 2), "request")), 0);
}

static const struct broken_row {
    const char *name;
    void (*damage)(json_t *bundle);
    enum error_kind kind;
    const char *says;
} broken_rows[] = {
    {"without the approver's key", drop_approver, ERROR_DENIED, "had the key"},
    {"without the key that approved the keys", drop_officer, ERROR_DENIED, "document 2: "},
    {"without the runner's document", drop_runner, ERROR_DENIED, "had the runner's key"},
    {"with documents out of order", swap_documents, ERROR_DENIED, "in the order of the log"},
    {"with a runner that one person enrolled", sign_alone, ERROR_DENIED, "document 5: "},
    {"without the approval", drop_approvals, ERROR_DENIED, "names 1 approvals, and there are 0"},
    {"without the lease", drop_lease, ERROR_INVALID, "lacks an envelope"},
    {"with another member", add_member, ERROR_INVALID, "more is not known"},
    {"with the event of another order", take_event, ERROR_DENIED, "another event"},
    {"with the event of a document", take_document_event, ERROR_DENIED, "not the event of this order"},
    {"with another order of the request", take_order, ERROR_DENIED, "another order"},
    {"with another request", take_request, ERROR_DENIED, "another request"},
};

/* ---- manifests ---- */

static void manifests_are_those_of_the_order(void **state)
{
    OWNED(run_bundle) *read = NULL;
    struct buffer OWNED_BUFFER report = BUFFER(65536);
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    world_begin(&world);
    world.trust.log_key = bytes_of_text(made_vkey(world.vectors, MADE_MANIFESTS));
    json_t *bundle = json_object_get(json_array_get(json_object_get(world.vectors, "bundles"), MADE_MANIFESTS), "bundle");
    json_t *manifests = json_object_get(bundle, "manifests");
    OWNED_STRING text = json_dumps(bundle, JSON_COMPACT);
    assert_true(run_bundle_check(bytes_of_text(text), &world.trust, &read, &err).ok);
    assert_int_equal(read->artifacts.count, 3);
    assert_ptr_equal(read->manifests[1], NULL); /* the image's is not there */
    assert_non_null(strstr(json_string_value(read->manifests[2]), "health"));
    assert_int_equal(json_array_append(manifests, json_array_get(manifests, 0)), 0);
    assert_false(check(&world, bundle, &report, &err).ok);
    assert_non_null(strstr(err.message, "manifest 3: the bundle has it twice"));
    assert_int_equal(json_array_set_new(manifests, 2, json_string("{}")), 0);
    assert_false(check(&world, bundle, &report, &err).ok);
    assert_non_null(strstr(err.message, "manifest 3: the order names no artifact of its digest"));
    assert_int_equal(err.kind, ERROR_DENIED);
}

static void refuses_bundles(void **state)
{
    const struct broken_row *row = *state;
    struct buffer OWNED_BUFFER report = BUFFER(65536);
    OWNED_WORLD world;
    struct error err = {0};

    world_begin(&world);
    OWNED_JSON bundle = json_deep_copy(made_bundle(world.vectors, 0));
    row->damage(bundle);
    assert_false(check(&world, bundle, &report, &err).ok);
    if (strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    assert_int_equal(err.kind, row->kind);
}

/* Bundles that a registry could make of what others have signed, each in a log of its own. */
static void refuses_those_of_the_vectors(void **state)
{
    OWNED_WORLD world;
    const json_t *row = NULL;
    size_t i = 0;

    (void)state;
    world_begin(&world);
    assert_int_not_equal(json_array_size(json_object_get(world.vectors, "refused")), 0);
    json_array_foreach (json_object_get(world.vectors, "refused"), i, row) {
        struct buffer OWNED_BUFFER report = BUFFER(65536);
        struct error err = {0};
        world.trust.log_key = bytes_of_text(json_text_of(row, "vkey"));
        if (check(&world, json_object_get(row, "bundle"), &report, &err).ok) fail_msg("%s", json_text_of(row, "name"));
        if (strstr(err.message, json_text_of(row, "says")) == NULL) fail_msg("%s", err.message);
        assert_true(err.kind == ERROR_DENIED || err.kind == ERROR_INVALID);
    }
}

static void accepts_those_of_the_vectors(void **state)
{
    OWNED_WORLD world;
    const json_t *row = NULL;
    size_t i = 0;

    (void)state;
    world_begin(&world);
    assert_int_not_equal(json_array_size(json_object_get(world.vectors, "accepted")), 0);
    json_array_foreach (json_object_get(world.vectors, "accepted"), i, row) {
        struct buffer OWNED_BUFFER report = BUFFER(65536);
        struct error err = {0};
        world.trust.log_key = bytes_of_text(json_text_of(row, "vkey"));
        if (!check(&world, json_object_get(row, "bundle"), &report, &err).ok)
            fail_msg("%s: %s", json_text_of(row, "name"), err.message);
    }
}

/* ---- other keys ---- */

static void other_keys_prove_nothing(void **state)
{
    struct buffer OWNED_BUFFER report = BUFFER(65536);
    OWNED_WORLD world;
    struct error err = {0};

    (void)state;
    world_begin(&world);
    const json_t *bundle = made_bundle(world.vectors, 0);
    OWNED(ecdsa_key) *stranger = made_key(world.vectors, "runner");
    world.trust.keyd = stranger;
    assert_false(check(&world, bundle, &report, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    world.trust.keyd = world.keyd;
    ecdsa_key_public(stranger, world.trust.root);
    assert_false(check(&world, bundle, &report, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
}

/* ---- each byte ---- */

#define STRIDE 131 /* co-prime to the lengths of base64 and of JSON's repetitions, so that it meets every kind of place */

static void put(json_t *holder, const char *name, const char *text)
{
    if (json_is_array(holder)) assert_int_equal(json_array_set_new(holder, 0, json_string(text)), 0);
    else assert_int_equal(json_object_set_new(holder, name, json_string(text)), 0);
}

/* `holder`: an object with the member `name`, or a list with one text. */
static void change_each(const struct world *world, const json_t *bundle, json_t *holder, const char *name, size_t *count)
{
    const json_t *value = json_is_array(holder) ? json_array_get(holder, 0) : json_object_get(holder, name);
    OWNED_STRING text = memory_copy_text(json_string_value(value), json_string_length(value));

    assert_non_null(text);
    for (size_t i = *count % STRIDE; text[i] != '\0'; i++, ++*count) {
        struct buffer OWNED_BUFFER report = BUFFER(65536);
        struct error err = {0};
        const char letter = text[i];
        text[i] = letter == 'A' ? 'B' : 'A';
        put(holder, name, text);
        if (check(world, bundle, &report, &err).ok) fail_msg("byte %zu of %s can be changed", i, name);
        assert_true(err.kind == ERROR_DENIED || err.kind == ERROR_INVALID || err.kind == ERROR_LIMIT);
        text[i] = letter;
        i = i + STRIDE - 1 < strlen(text) ? i + STRIDE - 1 : strlen(text) - 1;
    }
    put(holder, name, text);
}

static void no_byte_can_be_changed(void **state)
{
    static const char *const names[] = {"request", "order", "lease", "result", "admission"};
    OWNED_WORLD world;
    size_t count = 0;

    (void)state;
    world_begin(&world);
    OWNED_JSON bundle = json_deep_copy(made_bundle(world.vectors, 0));
    for (size_t i = 0; i < COUNT(names); i++) change_each(&world, bundle, bundle, names[i], &count);
    change_each(&world, bundle, json_object_get(bundle, "approvals"), "the approval", &count);
    json_t *event = json_object_get(bundle, "event");
    change_each(&world, bundle, event, "entry", &count);
    change_each(&world, bundle, event, "proof", &count);
    json_t *document = json_array_get(json_object_get(bundle, "documents"), 4);
    change_each(&world, bundle, document, "entry", &count);
    change_each(&world, bundle, document, "proof", &count);
    print_message("%zu changes\n", count);
    assert_in_range(count, 60, 100000);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(no_text_makes_a_line),
        cmocka_unit_test(accepts_those_of_the_vectors),
        cmocka_unit_test(refuses_those_of_the_vectors),
        cmocka_unit_test(other_keys_prove_nothing),
        cmocka_unit_test(manifests_are_those_of_the_order),
        cmocka_unit_test(no_byte_can_be_changed),
    };
    int failed = RUN_TABLE(whole_rows, says_what_is_proven);

    failed += RUN_TABLE(broken_rows, refuses_bundles);
    return failed + cmocka_run_group_tests(others, NULL, NULL);
}
