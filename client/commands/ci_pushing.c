/* The pipelines that `sijil ci init` prints without --train: they push and pull. */
#include "client/commands/ci_priv.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Each command is one line, which the test of this runs (tests/scenario/ci.py). */
static const char github[] =
    "# .github/workflows/model.yml: pushes @FILE@ to @HOST@. Rule: sijil ci init github @HOST@ @REPOSITORY@ --rule\n"
    "# The runner or its image needs sijil (package sijil-client).\n"
    "name: model\n"
    "on:\n"
    "  push:\n"
    "    branches: [main]\n"
    "permissions:\n"
    "  contents: read\n"
    "  id-token: write\n"
    "jobs:\n"
    "  model:\n"
    "    runs-on: ubuntu-latest\n"
    "    defaults:\n"
    "      run:\n"
    "        shell: bash\n"
    "    steps:\n"
    "      - uses: actions/checkout@v4\n"
    "      - name: log in\n"
    "        run: |\n"
    "          curl -sSf -H \"Authorization: Bearer $ACTIONS_ID_TOKEN_REQUEST_TOKEN\" "
    "\"$ACTIONS_ID_TOKEN_REQUEST_URL&audience=https://@HOST@\" | jq -r .value | sijil ci login @HOST@ @REPOSITORY@\n"
    "      - name: push\n"
    "        run: sijil push @FILE@ @HOST@/@REPOSITORY@:$GITHUB_SHA\n"
    "      - name: pull\n"
    "        run: sijil pull @HOST@/@REPOSITORY@:$GITHUB_SHA --output pulled\n";
static const char gitlab[] = "# .gitlab-ci.yml: pushes @FILE@ to @HOST@. Rule: sijil ci init gitlab @HOST@ @REPOSITORY@ --rule\n"
                             "# The runner or its image needs sijil (package sijil-client).\n"
                             "model:\n"
                             "  rules:\n"
                             "    - if: $CI_COMMIT_REF_PROTECTED == \"true\"\n"
                             "  id_tokens:\n"
                             "    SIJIL_ID_TOKEN:\n"
                             "      aud: https://@HOST@\n"
                             "  script:\n"
                             "    - printf %s \"$SIJIL_ID_TOKEN\" | sijil ci login @HOST@ @REPOSITORY@\n"
                             "    - sijil push @FILE@ @HOST@/@REPOSITORY@:$CI_COMMIT_SHA\n"
                             "    - sijil pull @HOST@/@REPOSITORY@:$CI_COMMIT_SHA --output pulled\n";
static const char jenkins[] =
    "// Jenkinsfile: pushes @FILE@ to @HOST@. Rule: sijil ci init jenkins @HOST@ @REPOSITORY@ --rule\n"
    "// The runner or its image needs sijil (package sijil-client).\n"
    "// The credential \"sijil\" is an \"OpenID Connect id token\" of the plugin oidc-provider, with the audience https://@HOST@ and a\n"
    "// claim template jti=${BUILD_TAG}: Jenkins writes no jti of its own, and the rule lets each token be used once.\n"
    "pipeline {\n"
    "  agent any\n"
    "  stages {\n"
    "    stage('model') {\n"
    "      steps {\n"
    "        withCredentials([string(credentialsId: 'sijil', variable: 'SIJIL_ID_TOKEN')]) {\n"
    "          sh 'printf %s \"$SIJIL_ID_TOKEN\" | sijil ci login @HOST@ @REPOSITORY@'\n"
    "        }\n"
    "        sh 'sijil push @FILE@ @HOST@/@REPOSITORY@:build-$BUILD_NUMBER'\n"
    "        sh 'sijil pull @HOST@/@REPOSITORY@:build-$BUILD_NUMBER --output pulled'\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "}\n";
static const char kubernetes[] =
    "# kubectl create -f FILE: a Job that pushes @FILE@ to @HOST@. Rule: sijil ci init kubernetes @HOST@ @REPOSITORY@ --rule\n"
    "apiVersion: batch/v1\n"
    "kind: Job\n"
    "metadata:\n"
    "  generateName: model-\n"
    "spec:\n"
    "  backoffLimit: 0\n"
    "  template:\n"
    "    spec:\n"
    "      serviceAccountName: model\n"
    "      automountServiceAccountToken: false\n"
    "      restartPolicy: Never\n"
    "      volumes:\n"
    "        - name: sijil\n"
    "          projected:\n"
    "            sources:\n"
    "              - serviceAccountToken:\n"
    "                  audience: https://@HOST@\n"
    "                  expirationSeconds: 600\n"
    "                  path: token\n"
    "      containers:\n"
    "        - name: model\n"
    "          image: IMAGE-WITH-SIJIL-AND-YOUR-CODE\n"
    "          volumeMounts:\n"
    "            - name: sijil\n"
    "              mountPath: /var/run/sijil\n"
    "          env:\n"
    "            - name: POD_NAME\n"
    "              valueFrom:\n"
    "                fieldRef:\n"
    "                  fieldPath: metadata.name\n"
    "          command: [sh, -ec]\n"
    "          args:\n"
    "            - |\n"
    "              sijil ci login @HOST@ @REPOSITORY@ < /var/run/sijil/token\n"
    "              sijil push @FILE@ @HOST@/@REPOSITORY@:$POD_NAME\n"
    "              sijil pull @HOST@/@REPOSITORY@:$POD_NAME --output pulled\n";

#define RULE(system, issuer, match, more) \
    CI_RULE(system "-model", system, issuer, match, more, "{\"role\": \"publisher\", \"on\": \"@REPOSITORY@\"}", "true")

static const struct ci_pipeline pipelines[] = {
    {"github", github,
     RULE("github", "https://token.actions.githubusercontent.com",
          CI_ONE("/repository_id", "ID-OF-THE-REPOSITORY") ",\n" CI_ONE("/repository_owner_id", "ID-OF-ITS-OWNER") ",\n" CI_ONE(
              "/ref", "refs/heads/main") ",\n" CI_ONE("/event_name", "push"),
          "")},
    {"gitlab", gitlab,
     RULE("gitlab", "https://gitlab.com",
          CI_ONE("/project_id", "ID-OF-THE-PROJECT") ",\n" CI_ONE("/ref", "main") ",\n" CI_ONE(
              "/ref_type", "branch") ",\n" CI_ONE("/ref_protected", "true"),
          "")},
    {"jenkins", jenkins,
     RULE("jenkins", "https://JENKINS/oidc", CI_ONE("/sub", "https://JENKINS/job/model/"), "  \"immutable\": [\"/sub\"],\n")},
    {"kubernetes", kubernetes,
     RULE("kubernetes", "https://ISSUER-OF-THE-CLUSTER",
          CI_ONE("/kubernetes.io/serviceaccount/uid",
                 "UID-OF-THE-SERVICE-ACCOUNT") ",\n" CI_ONE("/sub", "system:serviceaccount:NAMESPACE:model"),
          "")},
};
const struct ci_pipelines ci_pushing = {pipelines, COUNT(pipelines)};
