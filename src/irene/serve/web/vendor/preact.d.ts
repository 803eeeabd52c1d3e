// Types of what the dashboard uses of preact.js; enough for `tsc --checkJs --strict`.

export type Ref<T> = { current: T };
export type Cleanup = void | undefined | (() => void);
export type Change<T> = T | ((old: T) => T);

export function html(strings: TemplateStringsArray, ...values: unknown[]): any;
export function render(node: any, parent: Element): void;
export function h(type: any, props: any, ...children: any[]): any;
export const Fragment: any;

export function useState<T>(first: T | (() => T)): [T, (change: Change<T>) => void];
export function useEffect(effect: () => Cleanup, inputs?: readonly unknown[]): void;
export function useLayoutEffect(effect: () => Cleanup, inputs?: readonly unknown[]): void;
export function useMemo<T>(make: () => T, inputs: readonly unknown[]): T;
export function useCallback<T>(callback: T, inputs: readonly unknown[]): T;
export function useRef<T>(first: T): Ref<T>;
export function useId(): string;
export function useErrorBoundary(report?: (error: any) => void): [any, () => void];

export interface Signal<T> {
  value: T;
  peek(): T;
}
export function signal<T>(first: T): Signal<T>;
export function computed<T>(make: () => T): Readonly<Signal<T>>;
export function effect(run: () => Cleanup): () => void;
export function batch<T>(run: () => T): T;
export function useSignal<T>(first: T): Signal<T>;
export function useComputed<T>(make: () => T): Readonly<Signal<T>>;
