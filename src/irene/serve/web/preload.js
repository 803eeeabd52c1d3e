// The first page's scripts are asked for at once, not one import after the other. A test
// compares the list with what the page imports.
"use strict";
if (location.pathname === "/") {
  for (const name of [
    "components/Chart.js",
    "components/Controls.js",
    "components/ExportMenu.js",
    "components/Icicle.js",
    "components/Intro.js",
    "components/NodeDetails.js",
    "components/NodeList.js",
    "components/RunForm.js",
    "components/Serving.js",
    "components/Side.js",
    "components/SizeCurve.js",
    "components/Sizes.js",
    "components/TreeState.js",
    "components/TreeTable.js",
    "components/TreeTools.js",
    "components/TreeViews.js",
    "lib/board.js",
    "lib/colour.js",
    "lib/features.js",
    "lib/headline.js",
    "lib/icicle.js",
    "lib/questions.js",
    "lib/rows.js",
    "lib/scale.js",
    "lib/sizes.js",
    "lib/subjects.js",
    "lib/tree.js",
    "pages/explore.js",
  ]) {
    const link = document.createElement("link");
    link.rel = "modulepreload";
    link.href = `/static/${name}`;
    document.head.append(link);
  }
}
