// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Search, copy buttons and the list of pages. Without this script every page can be read.
(() => {
  const root = document.currentScript.dataset.root;

  // The list of pages is open beside the page, and closed above it on a small screen.
  const pages = document.querySelector('nav details');
  const wide = matchMedia('(min-width: 50rem)');
  const showPages = () => { pages.open = wide.matches; };
  wide.addEventListener('change', showPages);
  showPages();

  for (const pre of document.querySelectorAll('main pre')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'Copy';
    button.addEventListener('click', async () => {
      // Of a transcript only the commands are copied.
      const lines = pre.querySelector('code').textContent.trimEnd().split('\n');
      const commands = lines.filter((line) => line.startsWith('$ ')).map((line) => line.slice(2));
      await navigator.clipboard.writeText((commands.length ? commands : lines).join('\n') + '\n');
      button.textContent = 'Copied';
      setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    });
    if (navigator.clipboard) pre.append(button);
  }

  const input = document.getElementById('search-input');
  const results = document.getElementById('search-results');
  let loading;
  const load = () => loading ??= new Promise((resolve, reject) => {
    const script = document.createElement('script');
    script.src = root + 'search-index.js';
    script.onload = () => resolve(window.searchIndex.map((s) => ({ ...s, title: s.t.toLowerCase(), page: s.p.toLowerCase(), text: s.x.toLowerCase() })));
    script.onerror = reject;
    document.head.append(script);
  });

  // find returns the sections that match best. A rare word counts more than a common one, and a word in a title more than
  // one in the text. Words that no page has, such as the names and numbers of a message that was pasted, do not count.
  const find = (sections, query) => {
    const phrase = query.toLowerCase().trim();
    const words = [...new Set(phrase.split(/[^\p{L}\p{N}_.-]+/u))].filter(Boolean).map((word) => {
      const having = sections.filter((s) => s.text.includes(word) || s.title.includes(word)).length;
      return { word, weight: having && Math.log(1 + sections.length / having) };
    }).filter((w) => w.weight);
    const all = words.reduce((sum, w) => sum + w.weight, 0);
    return sections.map((s) => {
      let score = 0;
      let found = 0;
      for (const { word, weight } of words) {
        const times = Math.min(s.text.split(word).length - 1, 5);
        const here = (s.title.includes(word) ? 4 : 0) + (s.page.includes(word) ? 1 : 0) + times / 2;
        if (times || s.title.includes(word)) found += weight;
        score += weight * here;
      }
      score *= (found / all) ** 3;
      if (s.text.includes(phrase)) score *= 2;
      if (/^(adr\/|adding-|architecture|attack|threat-model)/.test(s.u)) score /= 3; // pages for authors of Weir
      return { s, score: found >= all / 2 ? score : 0 };
    }).filter((r) => r.score > 0).sort((a, b) => b.score - a.score).slice(0, 20).map((r) => r.s);
  };

  // excerpt returns the text around the longest word that the section has, with the word marked.
  const excerpt = (s, query) => {
    const word = query.toLowerCase().split(/\s+/).sort((a, b) => b.length - a.length).find((w) => w && s.text.includes(w)) ?? '';
    const at = Math.max(s.text.indexOf(word), 0);
    const start = Math.max(at - 60, 0);
    const small = document.createElement('small');
    const end = at + word.length;
    const mark = document.createElement('mark');
    mark.textContent = s.x.slice(at, end);
    small.append((start ? '…' : '') + s.x.slice(start, at), mark, s.x.slice(end, end + 100) + '…');
    return small;
  };

  const show = (found, query) => {
    results.replaceChildren(...found.map((s) => {
      const link = document.createElement('a');
      link.href = root + s.u;
      link.role = 'option';
      link.append(s.t === s.p ? s.t : `${s.p} › ${s.t}`, excerpt(s, query));
      return link;
    }));
    if (!found.length) {
      const none = document.createElement('p');
      none.textContent = 'Nothing found. Try fewer words.';
      results.append(none);
    }
    results.hidden = false;
    select(0);
  };

  const select = (n) => {
    const all = [...results.querySelectorAll('a')];
    const selected = Math.min(Math.max(n, 0), all.length - 1);
    all.forEach((link, i) => link.setAttribute('aria-selected', i === selected));
    all[selected]?.scrollIntoView({ block: 'nearest' });
  };

  const close = () => { results.hidden = true; };
  input.addEventListener('focus', load, { once: true });
  input.addEventListener('input', async () => {
    const query = input.value;
    if (!query.trim()) return close();
    const sections = await load();
    if (query === input.value) show(find(sections, query), query);
  });
  // A link such as index.html?q=quota searches.
  const asked = new URLSearchParams(location.search).get('q');
  if (asked) {
    input.value = asked;
    input.dispatchEvent(new Event('input'));
  }
  input.form.addEventListener('submit', (e) => {
    e.preventDefault();
    results.querySelector('[aria-selected=true]')?.click();
    close();
  });
  input.addEventListener('keydown', (e) => {
    const all = [...results.querySelectorAll('a')];
    const at = all.findIndex((link) => link.getAttribute('aria-selected') === 'true');
    if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
      e.preventDefault();
      select(at + (e.key === 'ArrowDown' ? 1 : -1));
    } else if (e.key === 'Escape') {
      close();
    }
  });
  results.addEventListener('click', close);
  document.addEventListener('click', (e) => { if (!results.contains(e.target) && e.target !== input) close(); });
  document.addEventListener('keydown', (e) => {
    if (e.key === '/' && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      e.preventDefault();
      input.focus();
    }
  });
})();
